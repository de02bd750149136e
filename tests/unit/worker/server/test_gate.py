"""Who may send, and when: up to the limit, in the order of coming, and not to a server that is away."""

import asyncio
import math
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from batchwright.api.conditions import Reason
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit, ServerLoad, Signal
from batchwright.worker.server.findings import Health
from batchwright.worker.server.gate import Gate, Pass
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Failed, Kind, Retry

BROKE_OFF = Retry(Kind.BROKEN_OFF, Failed("x", "broke."))
REFUSED_KEY = Retry(Kind.UNAUTHORIZED, Failed("x", "The server answered 401."))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@dataclass
class NotedLimit:
    """A limit that a test sets, and that notes what it is told."""

    limit: int = 2
    told: list[tuple[float, int, Signal]] = field(default_factory=list)
    restarts: int = 0

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        self.told.append((round(seconds, 1), in_flight, signal))

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None:
        self.limit += load.waiting

    def restart(self, now: float) -> None:
        self.restarts += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit() -> NotedLimit:
    return NotedLimit()


@pytest.fixture
def gate(clock: Clock, limit: NotedLimit) -> Gate:
    return Gate(Availability(chance=lambda: 1.0), limit, clock=clock)


async def waiting(gate: Gate, count: int = 1) -> list[asyncio.Task[Pass]]:
    """Tasks that stand at the gate."""
    tasks = [asyncio.create_task(gate.enter()) for _ in range(count)]
    await settle()
    return tasks


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def passed(tasks: list[asyncio.Task[Pass]]) -> list[bool]:
    return [task.done() for task in tasks]


def leave_for(gate: Gate) -> None:
    """The server refuses the key."""
    gate.availability.models_asked(gate.clock(), Listing.REFUSED, cause="401")
    gate.update()


async def test_as_many_as_the_limit_allows_pass_without_a_task_switch(gate: Gate) -> None:
    entering = gate.enter()
    with pytest.raises(StopIteration) as end:
        entering.send(None)
    assert isinstance(end.value.value, Pass)
    assert gate.in_flight == 1


async def test_the_next_wait_until_one_leaves_and_pass_in_the_order_of_coming(gate: Gate) -> None:
    first, second = await gate.enter(), await gate.enter()
    tasks = await waiting(gate, 3)
    assert passed(tasks) == [False, False, False]
    gate.answered(first, Signal.SUCCESS)
    await settle()
    assert passed(tasks) == [True, False, False]
    gate.gave_up(second)
    await settle()
    assert passed(tasks) == [True, True, False]
    assert gate.in_flight == 2
    tasks[2].cancel()


async def test_a_limit_that_grows_lets_more_in(gate: Gate) -> None:
    tasks = await waiting(gate, 5)
    assert passed(tasks) == [True, True, False, False, False]
    gate.loaded(ServerLoad(waiting=2, running=0, kv_cache_usage=0.0))
    await settle()
    assert passed(tasks) == [True, True, True, True, False]
    tasks[4].cancel()


async def test_the_limit_is_told_what_each_try_says_of_the_load(gate: Gate, limit: NotedLimit, clock: Clock) -> None:
    first, second = await gate.enter(), await gate.enter()
    clock.now += 3.0
    gate.answered(first, Signal.SUCCESS)
    gate.failed(second, Retry(Kind.UNAVAILABLE, Failed("x", "busy"), overload=True), line="a", clean=True)
    gate.gave_up(await gate.enter())
    assert limit.told == [(3.0, 2, Signal.SUCCESS), (3.0, 1, Signal.OVERLOAD)]


async def test_who_is_cancelled_while_waiting_takes_nobody_s_turn(gate: Gate) -> None:
    first, _ = await gate.enter(), await gate.enter()
    tasks = await waiting(gate, 2)
    tasks[0].cancel()
    gate.answered(first, Signal.SUCCESS)
    await settle()
    assert tasks[1].done()
    assert gate.in_flight == 2


async def test_who_is_cancelled_just_as_the_turn_comes_gives_it_on(gate: Gate) -> None:
    first, _ = await gate.enter(), await gate.enter()
    tasks = await waiting(gate, 2)
    gate.answered(first, Signal.SUCCESS)
    tasks[0].cancel()
    await settle()
    assert tasks[0].cancelled()
    assert tasks[1].done()
    assert gate.in_flight == 2


class TestAway:
    async def test_nobody_passes(self, gate: Gate) -> None:
        leave_for(gate)
        tasks = await waiting(gate, 2)
        assert passed(tasks) == [False, False]
        assert gate.in_flight == 0
        assert gate.outage is not None
        for task in tasks:
            task.cancel()

    async def test_one_passes_for_a_trial_and_its_answer_opens_for_all(
        self, gate: Gate, clock: Clock, limit: NotedLimit
    ) -> None:
        leave_for(gate)
        tasks = await waiting(gate, 2)
        clock.now += 5.0
        gate.update()
        await settle()
        assert passed(tasks) == [True, False]
        gate.answered(tasks[0].result(), Signal.SUCCESS)
        await settle()
        assert passed(tasks) == [True, True]
        assert gate.outage is None
        assert limit.restarts == 0, "the server may have the load that it had"

    async def test_a_trial_that_fails_leaves_it_closed(self, gate: Gate, clock: Clock) -> None:
        leave_for(gate)
        tasks = await waiting(gate, 2)
        clock.now += 5.0
        gate.update()
        await settle()
        gate.failed(tasks[0].result(), REFUSED_KEY, line="a", clean=True)
        await settle()
        assert passed(tasks) == [True, False]
        tasks[1].cancel()

    async def test_a_trial_that_is_given_up_is_followed_by_another(self, gate: Gate, clock: Clock) -> None:
        leave_for(gate)
        tasks = await waiting(gate, 2)
        clock.now += 5.0
        gate.update()
        await settle()
        gate.gave_up(tasks[0].result())
        clock.now += 5.0
        gate.update()
        await settle()
        assert passed(tasks) == [True, True]

    @pytest.mark.parametrize(("seconds", "restarts"), [(1.0, 0), (3.0, 1)])
    async def test_the_limit_begins_anew_after_a_server_that_was_gone_for_more_than_a_moment(
        self, gate: Gate, clock: Clock, limit: NotedLimit, seconds: float, restarts: int
    ) -> None:
        for _ in range(2):
            gate.availability.probed(clock(), Health.GONE, began=clock.now)
        gate.update()
        clock.now += seconds
        gate.availability.probed(clock(), Health.ALIVE, began=clock.now)
        gate.update()
        assert limit.restarts == restarts

    async def test_and_after_one_that_broke_with_all_that_was_in_flight(
        self, gate: Gate, clock: Clock, limit: NotedLimit
    ) -> None:
        gate.availability.probed(clock(), Health.ALIVE, began=clock.now)
        for _ in range(2):
            passes = await gate.enter(), await gate.enter()
            for name, admitted in zip("ab", passes, strict=True):
                gate.failed(admitted, BROKE_OFF, line=name, clean=True)
        clock.now += 3.0
        gate.update()
        assert gate.outage is not None
        now = clock()
        gate.availability.answered(now, now)
        gate.update()
        assert limit.restarts == 1

    async def test_what_is_told_begins_anew_with_another_cause(self, gate: Gate, clock: Clock) -> None:
        leave_for(gate)
        assert gate.outage is not None
        first = gate.outage
        clock.now -= 3600.0  # so that the wall clock tells them apart
        gate.availability.models_asked(clock(), Listing.UNLISTED, cause="gone")
        clock.now += 3600.0
        gate.update()
        assert gate.outage.reason is Reason.MODEL_NOT_FOUND
        assert first.since - gate.outage.since > timedelta(minutes=59)

    async def test_the_server_coming_back_lets_in_as_many_as_the_limit_allows(self, gate: Gate, clock: Clock) -> None:
        for _ in range(2):
            gate.availability.probed(clock(), Health.GONE, began=clock.now, cause="refused")
        gate.update()
        tasks = await waiting(gate, 3)
        gate.availability.probed(clock(), Health.ALIVE, began=clock.now)
        gate.update()
        await settle()
        assert passed(tasks) == [True, True, False]
        tasks[2].cancel()


@dataclass
class Lines:
    """Lines that were never sent, with somebody to send each."""

    count: int
    passes: list[Pass] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return len(self.passes) < self.count

    def let_in(self, admitted: Pass) -> None:
        self.passes.append(admitted)


class TestLinesThatWereNeverSent:
    def gate(self, clock: Clock, limit: NotedLimit, lines: Lines) -> Gate:
        return Gate(Availability(chance=lambda: 1.0), limit, lines, clock=clock)

    async def test_as_many_are_let_in_as_the_limit_allows(self, clock: Clock, limit: NotedLimit) -> None:
        lines = Lines(5)
        gate = self.gate(clock, limit, lines)
        gate.let_in()
        assert len(lines.passes) == 2
        gate.gave_up(lines.passes[0])
        assert len(lines.passes) == 3

    async def test_they_come_by_turns_with_those_that_are_tried_again(self, clock: Clock, limit: NotedLimit) -> None:
        lines = Lines(0)
        gate = self.gate(clock, limit, lines)
        in_flight = [await gate.enter(), await gate.enter()]
        tasks = await waiting(gate, 3)
        lines.count = 3
        came = []
        for _ in range(6):
            gate.gave_up(in_flight.pop(0))
            await settle()
            passed_by = [task.result() for task in tasks if task.done()]
            came.append((len(passed_by), len(lines.passes)))
            in_flight = [one for one in (*passed_by, *lines.passes) if one.ended == math.inf]
        assert came[-1] == (3, 3)
        assert all(abs(again - new) <= 1 for again, new in came)

    async def test_one_of_them_is_the_trial_even_where_bad_lines_are_tried_again_and_again(
        self, clock: Clock, limit: NotedLimit
    ) -> None:
        lines = Lines(0)
        gate = self.gate(clock, limit, lines)
        leave_for(gate)
        tasks = await waiting(gate, 2)
        lines.count = 1
        for _ in range(2):
            clock.now += 60.0
            gate.update()
            await settle()
            passes = [*lines.passes, *(task.result() for task in tasks if task.done())]
            [trial] = [one for one in passes if one.ended == math.inf]
            gate.failed(trial, REFUSED_KEY, line="a", clean=True)
        assert len(lines.passes) == 1
        for task in tasks:
            task.cancel()


class TestSuspects:
    """Lines that were in flight when the server broke with everything."""

    async def test_one_is_sent_with_less_company_the_more_often_that_was(self, gate: Gate, limit: NotedLimit) -> None:
        limit.limit = 8
        alone = await gate.enter(losses=3)
        tasks = await waiting(gate, 2)
        assert passed(tasks) == [False, False]
        gate.answered(alone, Signal.SUCCESS)
        await settle()
        assert passed(tasks) == [True, True]
        suspects = [asyncio.create_task(gate.enter(losses=1)) for _ in range(4)]
        await settle()
        assert passed(suspects) == [True, True, False, False], "four in flight at most"
        gate.answered(tasks[0].result(), Signal.SUCCESS)
        await settle()
        assert passed(suspects) == [True, True, True, False]
        suspects[3].cancel()

    async def test_with_none_in_flight_as_many_pass_as_before(self, gate: Gate) -> None:
        gate.failed(await gate.enter(losses=1), BROKE_OFF, line="a", clean=True)
        tasks = await waiting(gate, 2)
        assert passed(tasks) == [True, True]


class TestDrop:
    async def test_an_answer_that_has_just_come_is_kept(self, gate: Gate) -> None:
        coming: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def one() -> str:
            await gate.enter()
            return await coming

        task = asyncio.create_task(one())
        await settle()
        coming.set_result("an answer")
        gate.drop_in_flight()
        assert await task == "an answer"

    async def test_so_is_one_that_comes_later_in_the_same_turn_of_the_loop(self, gate: Gate) -> None:
        coming: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def one() -> str:
            admitted = await gate.enter()
            answer = await coming
            gate.answered(admitted, Signal.SUCCESS)
            return answer

        task = asyncio.create_task(one())
        await settle()
        gate.drop_in_flight()
        coming.set_result("an answer")
        await settle()
        assert await task == "an answer"

    async def test_what_gets_no_answer_is_ended(self, gate: Gate) -> None:
        passes = []

        async def one() -> None:
            passes.append(await gate.enter())
            await asyncio.sleep(3600)

        task = asyncio.create_task(one())
        await settle()
        gate.drop_in_flight()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert passes[0].dropped

    async def test_a_trial_can_be_left(self, gate: Gate, clock: Clock) -> None:
        leave_for(gate)
        tasks = await waiting(gate)
        clock.now += 5.0
        gate.update()
        await settle()
        gate.drop_in_flight(trials=False)
        assert not tasks[0].result().dropped


class TestStop:
    async def test_who_waits_is_told_at_once(self, gate: Gate) -> None:
        leave_for(gate)
        tasks = await waiting(gate, 2)
        gate.stop()
        for task in tasks:
            with pytest.raises(Stopping):
                await asyncio.wait_for(task, 10)

    async def test_who_comes_later_too(self, gate: Gate) -> None:
        gate.stop()
        with pytest.raises(Stopping):
            await gate.enter()

    async def test_who_waits_for_something_else_too(self, gate: Gate) -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(gate.unless_stopped(future))
        await settle()
        gate.stop()
        with pytest.raises(Stopping):
            await asyncio.wait_for(task, 10)

    async def test_what_is_in_flight_may_end(self, gate: Gate) -> None:
        admitted = await gate.enter()
        gate.stop()
        gate.answered(admitted, Signal.SUCCESS)
        assert gate.in_flight == 0


async def test_every_try_is_counted_in_and_out_whatever_happens() -> None:
    """A crowd at a small gate, of which some are cancelled."""
    gate = Gate(Availability(), FixedLimit(3))
    most = 0

    async def one(number: int) -> None:
        nonlocal most
        admitted = await gate.enter()
        most = max(most, gate.in_flight)
        try:
            await asyncio.sleep(0.001 * (number % 3))
        except asyncio.CancelledError:
            gate.gave_up(admitted)
            raise
        gate.answered(admitted, Signal.SUCCESS)

    tasks = [asyncio.create_task(one(number)) for number in range(60)]
    for number, task in enumerate(tasks):
        if number % 4 == 0:
            await asyncio.sleep(0.001)
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gate.in_flight == 0
    assert most == 3
