"""One line until it has an outcome: how often it is tried, at whose expense, what is sent, how long it pauses."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.api.defaults import RequestPolicy
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.sender import (
    CHARGED_BACKOFF_SECONDS,
    MAX_BROKEN_TRIES,
    SHORTEST_PAUSE_SECONDS,
    SPARED_BACKOFF_SECONDS,
    Sender,
    backoff,
)
from batchwright.worker.run.stopping import Stopping, sleep_unless
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit
from batchwright.worker.server.findings import WatchTimes
from batchwright.worker.server.gate import Gate
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Answered, Failed, Outcome
from batchwright.worker.server.watch import Watch
from batchwright.worker.transport.errors import AnswerTimeout, ConnectFailed, ConnectionLost, TransportError
from batchwright.worker.transport.protocol import Answer
from fixtures.transport import NoServer

OK = Answer(200, {}, b'{"choices":[{"finish_reason":"stop"}]}')
ABORTED = Answer(200, {}, b'{"choices":[{"finish_reason":"abort"}]}')
BROKEN = Answer(500, {}, b'{"error":{}}')
BUSY = Answer(503, {}, b'{"error":{}}')
PACED = Answer(429, {"retry-after": "5"}, b"{}")
REFUSED_KEY = Answer(401, {}, b"{}")
FORBIDDEN = Answer(403, {}, b"{}")
NO_MODEL = Answer(404, {}, b'{"error":{"param":"model"}}')

Reply = Answer | TransportError


@dataclass
class Bench(NoServer):
    """A sender whose server gives one reply after the other; in the pause after each, `meanwhile` happens."""

    replies: Iterator[Reply]
    retries: int = 3
    key: Path | None = None
    chance: float = 0.5
    during: Callable[["Bench"], object] = lambda bench: None
    """Happens while a try goes on."""
    meanwhile: Callable[["Bench"], object] = lambda bench: None
    listings: Iterator[Listing] = field(default_factory=lambda: iter(()))
    sent: list[tuple[str, bytes, Mapping[str, str], float]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    gate: Gate = field(default_factory=lambda: Gate(Availability(WatchTimes(probe_again=0.0)), FixedLimit(8)))

    async def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109
        affinity: int | None = None,
    ) -> Answer:
        self.sent.append((path, body, headers, timeout))
        self.during(self)
        reply = next(self.replies)
        if isinstance(reply, TransportError):
            raise reply
        return reply

    async def probe(self, path: str, **_: object) -> Answer:
        return Answer(200, {}, b"")

    async def ask_models(self) -> Listing:
        return next(self.listings)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.meanwhile(self)

    async def send(self) -> Outcome:
        policy = RequestPolicy(timedelta(seconds=7), self.retries, 1)
        sender = Sender(self, policy, ApiKey(self.key), self.gate, self, chance=lambda: self.chance, sleep=self.sleep)
        watching = asyncio.create_task(Watch(self, self.gate, ApiKey(self.key), "m").run())
        try:
            async with asyncio.timeout(10):
                return await sender.send("/v1/x", b"body", "line-7")
        finally:
            watching.cancel()


def another_line_is_answered(bench: Bench) -> None:
    now = bench.gate.clock()
    bench.gate.availability.answered(now, now)
    bench.gate.update()


def an_older_line_is_answered(bench: Bench) -> None:
    bench.gate.availability.answered(bench.gate.clock(), 0.0)
    bench.gate.update()


async def status_of(bench: Bench) -> int:
    outcome = await bench.send()
    assert isinstance(outcome, Answered)
    return outcome.status


async def test_a_good_answer_needs_one_try() -> None:
    bench = Bench(iter([OK]))
    assert await status_of(bench) == 200
    assert [(path, body, timeout) for path, body, _, timeout in bench.sent] == [("/v1/x", b"body", 7.0)]
    assert bench.pauses == []


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("meanwhile", [lambda bench: None, another_line_is_answered], ids=["alone", "among others"])
async def test_a_line_that_always_fails_has_its_tries_and_no_more(
    retries: int, meanwhile: Callable[[Bench], object]
) -> None:
    bench = Bench(iter([BROKEN] * 10), retries, meanwhile=meanwhile)
    assert await status_of(bench) == 500
    assert len(bench.sent) == retries + 1


@pytest.mark.parametrize("reply", [BUSY, ABORTED, PACED, ConnectFailed("refused"), ConnectionLost("broke")])
async def test_what_the_server_is_at_fault_for_is_not_charged(reply: Reply) -> None:
    bench = Bench(iter([*[reply] * 7, OK]), retries=0, meanwhile=another_line_is_answered)
    assert await status_of(bench) == 200
    assert len(bench.sent) == 8


async def test_a_line_that_breaks_its_connection_again_and_again_while_others_are_answered_fails() -> None:
    bench = Bench(iter([ConnectionLost("broke")] * 20), meanwhile=another_line_is_answered)
    outcome = await bench.send()
    assert len(bench.sent) == MAX_BROKEN_TRIES
    assert outcome == Failed(
        "connection_error", "broke. Tried 10 times. 10 of them broke the connection though the server worked."
    )


async def test_the_last_failure_is_the_one_that_is_told_with_the_number_of_tries() -> None:
    bench = Bench(iter([BROKEN, BUSY, AnswerTimeout("late")]), retries=1, meanwhile=another_line_is_answered)
    assert await bench.send() == Failed(
        "request_timeout", "late. Tried 3 times, 1 of them at the expense of the server, which was away or busy."
    )


async def test_every_try_has_a_request_id_of_its_own_which_the_result_names() -> None:
    bench = Bench(iter([BUSY, BROKEN, OK]))
    outcome = await bench.send()
    assert [headers["X-Request-Id"] for _, _, headers, _ in bench.sent] == ["line-7-1", "line-7-2", "line-7-3"]
    assert isinstance(outcome, Answered)
    assert outcome.server_request_id == "line-7-3"


class TestPauses:
    async def test_they_grow_with_the_charges(self) -> None:
        bench = Bench(iter([BROKEN, BROKEN, OK]))
        await bench.send()
        assert bench.pauses == [0.25, 0.5]

    async def test_they_grow_while_others_are_answered(self) -> None:
        bench = Bench(iter([*[BUSY] * 5, OK]), during=another_line_is_answered)
        await bench.send()
        assert bench.pauses == [0.25, 0.5, 1.0, 2.0, 2.5]

    async def test_they_grow_less_while_nobody_is_since_the_gate_waits_then(self) -> None:
        bench = Bench(iter([*[BUSY] * 5, OK]))
        await bench.send()
        assert bench.pauses == [0.25, 0.5, 1.0, 1.0, 1.0]

    async def test_they_add_to_what_the_server_asks_for(self) -> None:
        bench = Bench(iter([PACED, OK]), meanwhile=another_line_is_answered)
        await bench.send()
        assert bench.pauses == [5.25]

    async def test_they_leave_time_to_see_what_becomes_of_others(self) -> None:
        bench = Bench(iter([BROKEN]), retries=0, chance=0.0)
        await bench.send()
        assert bench.pauses == [SHORTEST_PAUSE_SECONDS]

    async def test_one_ends_as_soon_as_the_worker_leaves(self) -> None:
        stopping = asyncio.Event()
        sleep = sleep_unless(stopping)
        await sleep(0.0)
        sleeping = asyncio.ensure_future(sleep(3600.0))
        await asyncio.sleep(0)
        stopping.set()
        with pytest.raises(Stopping):
            await asyncio.wait_for(sleeping, 10)
        with pytest.raises(Stopping):
            await sleep(3600.0)

    @pytest.mark.parametrize(("failures", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (2000, 30.0)])
    def test_they_double_up_to_a_limit(self, failures: int, longest: float) -> None:
        assert backoff(failures, 0.0, CHARGED_BACKOFF_SECONDS) == 0.0
        assert backoff(failures, 0.5, CHARGED_BACKOFF_SECONDS) == longest / 2

    @given(failures=st.integers(1, 5000), chance=st.floats(0, 1, exclude_max=True))
    def test_they_have_full_jitter_within_their_bounds(self, failures: int, chance: float) -> None:
        pause = backoff(failures, chance, SPARED_BACKOFF_SECONDS)
        assert 0.0 <= pause <= min(SPARED_BACKOFF_SECONDS, backoff(failures + 1, chance, SPARED_BACKOFF_SECONDS))


class TestApiKey:
    @pytest.fixture
    def key(self, tmp_path: Path) -> Path:
        (tmp_path / "key").write_text("sk-1")
        return tmp_path / "key"

    def sent(self, bench: Bench) -> list[str]:
        return [headers["Authorization"] for _, _, headers, _ in bench.sent]

    async def test_that_of_the_moment_goes_with_each_try(self, key: Path) -> None:
        bench = Bench(iter([OK]), key=key)
        await bench.send()
        assert self.sent(bench) == ["Bearer sk-1"]

    @pytest.mark.parametrize("refusal", [REFUSED_KEY, FORBIDDEN])
    async def test_one_that_was_rotated_is_read_anew_and_sent_at_once(self, key: Path, refusal: Answer) -> None:
        bench = Bench(iter([refusal, OK]), retries=0, key=key, during=lambda bench: key.write_text("sk-2"))
        assert await status_of(bench) == 200
        assert self.sent(bench) == ["Bearer sk-1", "Bearer sk-2"]
        assert bench.pauses == []


class TestForbidden:
    """A 403 is the server's state, or the line's own."""

    async def test_the_key_is_refused_for_the_models_too(self) -> None:
        bench = Bench(iter([FORBIDDEN, OK]), retries=0, listings=iter([Listing.REFUSED]))
        assert await status_of(bench) == 200

    async def test_others_are_answered_meanwhile(self) -> None:
        bench = Bench(iter([FORBIDDEN]), listings=iter([Listing.LISTED]), meanwhile=another_line_is_answered)
        assert await status_of(bench) == 403
        assert len(bench.sent) == 1

    async def test_a_line_alone_is_charged(self) -> None:
        bench = Bench(iter([FORBIDDEN] * 9), retries=1, listings=iter([Listing.LISTED] * 9))
        assert await status_of(bench) == 403
        assert len(bench.sent) == 2

    @pytest.mark.parametrize("listing", [Listing.REFUSED, Listing.UNREACHABLE])
    async def test_others_are_answered_and_the_models_are_not_to_be_had(self, listing: Listing) -> None:
        bench = Bench(iter([FORBIDDEN]), listings=iter([listing]), meanwhile=another_line_is_answered)
        assert await status_of(bench) == 403

    @pytest.mark.parametrize("listing", [Listing.REFUSED, Listing.UNREACHABLE])
    async def test_an_answer_to_what_was_sent_before_tells_nothing_of_the_key(self, listing: Listing) -> None:
        bench = Bench(
            iter([FORBIDDEN, FORBIDDEN, OK]), listings=iter([listing] * 2), meanwhile=an_older_line_is_answered
        )
        assert await status_of(bench) == 200
        assert bench.pauses == [0.25, 0.5]


class TestModelMissing:
    @pytest.mark.parametrize("listing", [Listing.LISTED, Listing.NO_LIST])
    async def test_a_server_that_lists_it_is_asked_once_more(self, listing: Listing) -> None:
        bench = Bench(iter([NO_MODEL] * 9), listings=iter([listing] * 9))
        assert await status_of(bench) == 404
        assert len(bench.sent) == 2

    @pytest.mark.parametrize("listing", [Listing.UNLISTED, Listing.UNREACHABLE, Listing.REFUSED])
    async def test_otherwise_it_is_not_the_line_s_fault(self, listing: Listing) -> None:
        bench = Bench(iter([*[NO_MODEL] * 5, OK]), retries=0, listings=iter([listing] * 5))
        assert await status_of(bench) == 200
        assert len(bench.pauses) == 5

    @pytest.mark.parametrize("listing", [Listing.UNREACHABLE, Listing.REFUSED])
    async def test_others_are_answered_and_the_models_are_not_to_be_had(self, listing: Listing) -> None:
        bench = Bench(iter([NO_MODEL]), listings=iter([listing]), meanwhile=another_line_is_answered)
        assert await status_of(bench) == 404

    async def test_one_of_several_replicas_without_the_model_is_waited_for(self) -> None:
        bench = Bench(
            iter([NO_MODEL, NO_MODEL, OK]),
            listings=iter([Listing.UNLISTED] * 2),
            meanwhile=another_line_is_answered,
        )
        assert await status_of(bench) == 200


async def test_a_try_that_the_watch_drops_is_done_again_uncharged() -> None:
    hanging = asyncio.Event()

    class Hanging(Bench):
        async def post(self, *args: object, **options: object) -> Answer:
            if not hanging.is_set():
                hanging.set()
                await asyncio.sleep(3600)
            return OK

    bench = Hanging(iter([]), retries=0)
    sending = asyncio.create_task(bench.send())
    await hanging.wait()
    bench.gate.drop_in_flight()
    outcome = await sending
    assert isinstance(outcome, Answered)
    assert bench.gate.in_flight == 0


async def test_a_cancellation_that_is_no_drop_ends_the_try() -> None:
    hanging = asyncio.Event()

    class Hanging(Bench):
        async def post(self, *args: object, **options: object) -> Answer:
            hanging.set()
            await asyncio.sleep(3600)
            raise AssertionError

    bench = Hanging(iter([]))
    sending = asyncio.create_task(bench.send())
    await hanging.wait()
    bench.gate.drop_in_flight()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert bench.gate.in_flight == 0
