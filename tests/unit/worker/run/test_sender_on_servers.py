"""A worker's senders, gate and watch on servers that fail in one way or another, with all pauses as they are, on a
clock that takes no time.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from batchwright.api.defaults import RequestPolicy
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.lines import LineQueue
from batchwright.worker.run.sender import MAX_BROKEN_TRIES, Sender
from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit, Limit
from batchwright.worker.server.gate import Gate, Outage
from batchwright.worker.server.verdicts import Answered, Failed, Outcome
from batchwright.worker.server.watch import Watch
from batchwright.worker.transport.errors import AnswerTimeout, ConnectFailed, ConnectionLost, TransportError
from batchwright.worker.transport.protocol import Answer, Body
from fixtures.transport import NoServer
from fixtures.virtual_time import run_in_no_time

OK = Answer(200, {}, b'{"choices":[{"finish_reason":"stop"}]}')
BROKEN = Answer(500, {}, b"{}")
FORBIDDEN = Answer(403, {}, b"{}")
SENDERS = 17
DAY = 86_400.0

Service = Callable[["Server", str], Awaitable[Answer]]


def seconds() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Server(NoServer):
    """A transport to a server that does what a test says with each line, and that may be down."""

    service: Service
    health: int = 200
    models: int = 200
    arrived: Counter[str] = field(default_factory=Counter)
    asked_models: int = 0
    up_from: float = 0.0
    in_flight: set[asyncio.Future[None]] = field(default_factory=set)

    def crash(self, down: float) -> None:
        self.up_from = seconds() + down
        for broken in self.in_flight:
            if not broken.done():
                broken.set_result(None)

    def check(self) -> None:
        if seconds() < self.up_from:
            raise ConnectFailed("no connection")

    async def post(self, path: str, body: Body, *, timeout: float, **_: object) -> Answer:  # noqa: ASYNC109
        await asyncio.sleep(0.001)
        self.check()
        name = bytes(body).decode()
        self.arrived[name] += 1
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.in_flight.add(broken)
        answering = asyncio.ensure_future(self.service(self, name))
        try:
            await asyncio.wait((broken, answering), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                raise ConnectionLost("the connection broke")
            if not answering.done():
                raise AnswerTimeout("no answer in time")
            return answering.result()
        finally:
            self.in_flight.discard(broken)
            answering.cancel()

    async def probe(self, path: str, **_: object) -> Answer:
        await asyncio.sleep(0.001)
        self.check()
        return Answer(self.health, {}, b"")

    async def get_each(self, path: str, **_: object) -> Sequence[Answer | TransportError]:
        self.asked_models += 1
        await asyncio.sleep(0.001)
        return (Answer(self.models, {}, b'{"data":[{"id":"m"}]}'),)


@dataclass
class Job:
    """What became of a job of lines."""

    server: Server
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    took: float = 0.0
    outages: list[Outage] = field(default_factory=list)

    @property
    def failed(self) -> set[str]:
        return {
            line
            for line, outcome in self.outcomes.items()
            if not isinstance(outcome, Answered) or outcome.status != 200
        }


def run(
    server: Server,
    lines: Sequence[str],
    *,
    limit: Limit | None = None,
    senders: int = SENDERS,
    timeout: float = 180.0,
    within: float = DAY,
) -> Job:
    """Send all lines, or as many as have an outcome `within` so many seconds."""
    policy = RequestPolicy(timedelta(seconds=timeout), 3, senders)
    return run_in_no_time(_run(Job(server), lines, limit or FixedLimit(senders), policy, within))


async def _run(
    job: Job,
    lines: Sequence[str],
    limit: Limit,
    policy: RequestPolicy,
    within: float,
) -> Job:
    server = job.server
    queue = LineQueue[str](2 * policy.max_concurrency)
    gate = Gate(Availability(has_untried=lambda: queue.left), limit, queue, clock=seconds)
    watch = Watch(server, gate, ApiKey(None), "m")
    sender = Sender(server, policy, ApiKey(None), gate, watch)

    async def feed() -> None:
        for line in lines:
            await queue.put(line, gate)
        queue.end()

    async def send_all() -> None:
        while taken := await queue.take(gate):
            line, admitted = taken
            job.outcomes[line] = await sender.send("/v1/x", line.encode(), line, admitted=admitted)
            job.took = seconds()

    async def note_outages() -> None:
        while True:
            if gate.outage and gate.outage not in job.outages:
                job.outages.append(gate.outage)
            await asyncio.sleep(0.25)

    beside = [asyncio.create_task(one) for one in (watch.run(), note_outages(), feed())]
    sending = [asyncio.create_task(send_all()) for _ in range(policy.max_concurrency)]
    await asyncio.wait(sending, timeout=within)
    for task in (*sending, *beside):
        task.cancel()
    for task in (*sending, *beside):
        with suppress(asyncio.CancelledError):
            await task
    return job


def good(count: int) -> list[str]:
    return [f"line-{number}" for number in range(count)]


def answers_in(took: float, *, bad: float = 0.0) -> Service:
    """Good lines are answered after `took` seconds; those whose names begin with `bad` get 500 after `bad`."""

    async def serve(server: Server, line: str) -> Answer:
        await asyncio.sleep(bad if line.startswith("bad") else took)
        return BROKEN if line.startswith("bad") else OK

    return serve


@pytest.mark.parametrize("limit", [FixedLimit(32), AdaptiveLimit(32)], ids=["fixed", "adaptive"])
def test_bad_lines_of_a_slow_server_have_their_tries_and_are_no_outage(limit: Limit) -> None:
    bad = {f"bad-{number}" for number in range(20)}
    lines = [f"bad-{number // 20}" if number % 20 == 7 else f"line-{number}" for number in range(400)]
    job = run(Server(answers_in(30.0)), lines, limit=limit, senders=32)
    assert job.failed == bad
    assert {job.server.arrived[line] for line in bad} == {4}
    assert job.outages == []


def test_two_bad_lines_side_by_side_in_the_smallest_of_jobs() -> None:
    lines = ["bad-1", "bad-2", *good(200)]
    job = run(Server(answers_in(30.0)), lines, limit=FixedLimit(2))
    assert job.failed == {"bad-1", "bad-2"}
    assert job.server.arrived["bad-1"] == job.server.arrived["bad-2"] == 4
    assert job.outages == []


@pytest.mark.parametrize("limit", [FixedLimit(16), AdaptiveLimit(16)], ids=["fixed", "adaptive"])
@pytest.mark.parametrize("down", [0.3, 3.0, 30.0])
def test_a_line_that_breaks_the_server_fails_and_all_others_are_answered(limit: Limit, down: float) -> None:
    async def serve(server: Server, line: str) -> Answer:
        if line == "poison":
            await asyncio.sleep(0.2)
            server.crash(down)
        await asyncio.sleep(2.0)
        return OK

    job = run(Server(serve), ["poison", *good(100)], limit=limit)
    assert len(job.outcomes) == 101
    assert job.failed == {"poison"}
    outcome = job.outcomes["poison"]
    assert isinstance(outcome, Failed)
    assert outcome.code == "connection_error"
    assert "of them broke the connection though the server worked." in outcome.message
    assert MAX_BROKEN_TRIES <= job.server.arrived["poison"] <= 2 * MAX_BROKEN_TRIES


def test_the_only_line_that_is_left_and_breaks_the_server_fails() -> None:
    async def serve(server: Server, line: str) -> Answer:
        server.crash(30.0)
        await asyncio.sleep(1.0)
        return OK

    job = run(Server(serve), ["poison"])
    assert job.failed == {"poison"}
    assert job.server.arrived["poison"] == MAX_BROKEN_TRIES
    assert "10 of them broke the connection" in str(job.outcomes["poison"])


@pytest.mark.parametrize("status", [502, 503])
def test_a_gateway_without_a_health_loses_nothing(status: int) -> None:
    job = run(Server(answers_in(60.0), health=status), good(40), limit=FixedLimit(4))
    assert len(job.outcomes) == 40
    assert job.failed == set()
    assert sum(job.server.arrived.values()) == 40
    assert job.outages == []


def breaks_down(server_at: float, lasts: float, health: int) -> Service:
    """All requests get 500 from one moment on, for so many seconds."""

    async def serve(server: Server, line: str) -> Answer:
        await asyncio.sleep(min(2.0, max(server_at - seconds(), 0.0)))
        if server_at <= seconds() < server_at + lasts:
            server.health = health
            asyncio.get_running_loop().call_at(server_at + lasts, setattr, server, "health", 200)
            return BROKEN
        return OK

    return serve


@pytest.mark.parametrize("health", [200, 503])
@pytest.mark.parametrize("count", [30, 300])
def test_none_fails_for_a_server_that_breaks_down_for_a_minute(health: int, count: int) -> None:
    """Among the last ten lines of a job, too."""
    job = run(Server(breaks_down(2.5, 60.0, health)), good(count), limit=FixedLimit(10))
    assert len(job.outcomes) == count
    assert job.failed == set()
    assert job.outages


class TestNothingButBadLines:
    def test_a_small_job_ends_within_minutes(self) -> None:
        job = run(Server(answers_in(1.0)), [f"bad-{number}" for number in range(8)])
        assert len(job.failed) == 8
        assert 120.0 < job.took < 600.0

    def test_at_the_end_of_a_job_too_where_each_takes_its_whole_time(self) -> None:
        lines = [*good(60), *(f"bad-{number}" for number in range(5))]
        job = run(Server(answers_in(5.0, bad=DAY)), lines, timeout=60.0)
        assert len(job.failed) == 5
        assert job.took < 900.0

    def test_a_job_that_has_others_to_try_waits_and_says_what_the_server_answers(self) -> None:
        job = run(Server(answers_in(1.0)), [f"bad-{number}" for number in range(400)], within=3600.0)
        assert job.outcomes == {}
        assert [outage.message for outage in job.outages] == ["The server answered 500."]
        assert sum(job.server.arrived.values()) < 250, "one at a time, twice a minute"


@pytest.mark.parametrize("models", [200, 403, 502])
def test_a_line_that_is_forbidden_is_answered_so_whatever_the_models_are(models: int) -> None:
    async def serve(server: Server, line: str) -> Answer:
        if line == "forbidden":
            return FORBIDDEN
        await asyncio.sleep(10.0)
        return OK

    job = run(Server(serve, models=models), ["forbidden", *good(100)], limit=FixedLimit(4))
    assert job.failed == {"forbidden"}
    assert len(job.outcomes) == 101
    assert job.outages == []
    assert job.server.asked_models <= job.took
    assert job.server.arrived["forbidden"] < 20


def test_a_quota_that_is_used_up_is_told_and_waited_for() -> None:
    async def serve(server: Server, line: str) -> Answer:
        return Answer(429, {"retry-after": "30"}, b"{}") if 5.0 < seconds() < 1800.0 else OK

    async def slow(server: Server, line: str) -> Answer:
        await asyncio.sleep(1.0)
        return await serve(server, line)

    job = run(Server(slow), good(200), limit=FixedLimit(8))
    assert len(job.outcomes) == 200
    assert job.failed == set()
    assert [outage.message for outage in job.outages] == [
        "The server answered 429. It asks for patience, and answers nothing else."
    ]
    assert sum(job.server.arrived.values()) < 300


@pytest.mark.parametrize("headers", [{}, {"retry-after": "5"}], ids=["429 alone", "with Retry-After"])
@pytest.mark.parametrize("limit", [FixedLimit, AdaptiveLimit])
def test_a_minute_of_429_fails_no_line(limit: Callable[[int], Limit], headers: dict[str, str]) -> None:
    """Over real sockets: tests/scale/test_pacing.py."""

    async def serve(server: Server, line: str) -> Answer:
        if 5.0 <= seconds() < 65.0:
            return Answer(429, headers, b"{}")
        await asyncio.sleep(1.0)
        return OK

    job = run(Server(serve), good(400), limit=limit(16))
    assert len(job.outcomes) == 400
    assert job.failed == set()
    assert 65.0 < job.took < 120.0
    assert sum(job.server.arrived.values()) - 400 < 20 * 60.0, "it was asked patiently"
