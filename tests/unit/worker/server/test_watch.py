"""The watch does what Availability asks for: it probes, asks for models, follows the key's file, drops what is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit, Signal
from batchwright.worker.server.findings import Cause, WatchTimes
from batchwright.worker.server.gate import Gate, Pass
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Failed, Kind, Retry
from batchwright.worker.server.watch import Watch
from batchwright.worker.transport.errors import AnswerTimeout, ConnectFailed, TransportError
from batchwright.worker.transport.protocol import Answer
from fixtures.transport import NoServer

SOON = WatchTimes(0.05, 0.05, 0.02, 0.02, 0.02, 0.02, 0.02)
NEVER = 3600.0
FINE = Answer(200, {}, b"")
UNAVAILABLE = Retry(Kind.UNAVAILABLE, Failed("connection_error", "refused."))
UNAUTHORIZED = Retry(Kind.UNAUTHORIZED, Failed("x", "The server answered 401."))


@dataclass
class Server(NoServer):
    """A transport of which only the GETs are of use here."""

    health: Answer | TransportError = FINE
    models: Answer | TransportError = field(default_factory=lambda: Answer(200, {}, b'{"data":[{"id":"m"}]}'))
    asked: list[str] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def get_each(self, path: str, **_: object) -> Sequence[Answer | TransportError]:
        self.asked.append(path)
        if self.hold:
            await self.hold.wait()
        return (self.models,)

    async def probe(self, path: str, **_: object) -> Answer:
        self.asked.append(path)
        if isinstance(self.health, TransportError):
            raise self.health
        return self.health


@dataclass
class Scene:
    server: Server
    gate: Gate
    watch: Watch

    @property
    def cause(self) -> Cause | None:
        away = self.gate.availability.away
        return away.cause if away else None

    async def fails(self, verdict: Retry) -> None:
        self.gate.failed(await self.gate.enter(), verdict, line="a", clean=True)


@asynccontextmanager
async def watching(server: Server, key: Path | None = None, times: WatchTimes = SOON) -> AsyncIterator[Scene]:
    gate = Gate(Availability(times), FixedLimit(4))
    watch = Watch(server, gate, ApiKey(key), "m")
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.sleep(0)  # it has begun
        async with asyncio.timeout(20):
            yield Scene(server, gate, watch)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing tells of a change
        await asyncio.sleep(0.005)


async def in_flight(gate: Gate) -> tuple[Pass, asyncio.Task[None]]:
    """A try that hangs; its task ends with a drop."""
    entered: asyncio.Future[Pass] = asyncio.get_running_loop().create_future()

    async def hang() -> None:
        entered.set_result(await gate.enter())
        await asyncio.sleep(NEVER)

    task = asyncio.create_task(hang())
    return await entered, task


async def test_a_server_that_works_is_left_alone() -> None:
    async with watching(Server()) as scene:
        for _ in range(20):
            scene.gate.answered(await scene.gate.enter(), Signal.SUCCESS)
            await asyncio.sleep(0.01)
        assert scene.server.asked in ([], ["/health"]), "it is compared once"


@pytest.mark.parametrize("health", [ConnectFailed("refused"), Answer(503, {}, b""), Answer(500, {}, b"")])
async def test_one_that_is_gone_is_found_and_what_is_in_flight_is_dropped(health: Answer | TransportError) -> None:
    async with watching(Server()) as scene:
        await scene.fails(UNAVAILABLE)
        await until(lambda: scene.server.asked)
        scene.server.health = health
        admitted, hanging = await in_flight(scene.gate)
        await scene.fails(UNAVAILABLE)
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert admitted.dropped
        assert scene.cause is Cause.PROBE
        scene.server.health = FINE
        await scene.gate.enter()


async def test_one_that_answers_late_is_given_three_probes() -> None:
    async with watching(Server(AnswerTimeout("late"))) as scene:
        admitted, _ = await in_flight(scene.gate)
        await until(lambda: scene.cause is Cause.PROBE)
        assert len(scene.server.asked) == 2
        assert not admitted.dropped
        await until(lambda: admitted.dropped)
        assert len(scene.server.asked) >= 3


@pytest.mark.parametrize("status", [200, 401, 403, 404, 405])
async def test_any_answer_below_500_is_a_sign_of_life(status: int) -> None:
    async with watching(Server(Answer(status, {}, b""))) as scene:
        await scene.fails(UNAVAILABLE)
        await until(lambda: scene.server.asked)
        await asyncio.sleep(0.1)
        assert scene.cause is None


async def test_many_that_ask_for_the_models_at_once_cost_one_request() -> None:
    async with watching(Server()) as scene:
        assert await asyncio.gather(*(scene.watch.ask_models() for _ in range(20))) == [Listing.LISTED] * 20
        assert scene.server.asked == ["/v1/models"]


async def test_nor_do_they_cost_more_than_one_in_a_while() -> None:
    async with watching(Server(), times=WatchTimes(probe_again=NEVER)) as scene:
        await scene.watch.ask_models()
        again = asyncio.create_task(scene.watch.ask_models())
        await asyncio.sleep(0.05)
        assert scene.server.asked == ["/v1/models"]
        again.cancel()


async def test_one_whose_health_was_never_fine_is_told_by_its_requests() -> None:
    async with watching(Server(Answer(502, {}, b""))) as scene:
        admitted, hanging = await in_flight(scene.gate)
        await scene.fails(UNAVAILABLE)
        await until(lambda: len(scene.server.asked) > 3)
        assert scene.cause is None
        assert not admitted.dropped
        hanging.cancel()


async def test_a_model_that_vanished_is_asked_for_until_it_is_back() -> None:
    async with watching(Server(models=Answer(200, {}, b'{"data":[]}'))) as scene:
        assert await scene.watch.ask_models() is Listing.UNLISTED
        assert scene.cause is Cause.MODEL
        entering = asyncio.create_task(scene.gate.enter())
        await asyncio.sleep(0.1)
        assert not entering.done()
        scene.server.models = Answer(200, {}, b'{"data":[{"id":"m"}]}')
        await entering


async def test_a_worker_that_leaves_does_not_wait_for_the_models() -> None:
    async with watching(Server(hold=asyncio.Event())) as scene:
        asking = asyncio.create_task(scene.watch.ask_models())
        await until(lambda: scene.server.asked)
        scene.gate.stop()
        with pytest.raises(Stopping):
            await asking


async def test_a_new_key_is_tried_soon_though_the_next_trial_is_far(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("old")
    patient = WatchTimes(first_trial=NEVER, longest_trial=NEVER)
    async with watching(Server(), key, patient) as scene:
        await scene.fails(UNAUTHORIZED)
        assert scene.cause is Cause.KEY
        key.write_text("new")
        await scene.gate.enter()
