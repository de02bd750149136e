"""Candidates for one Lease in simulated time, against an API server whose requests and answers are late, lost, or come
out of order.

Whatever happens, no two lead at once: neither with clocks that run at different rates, nor with processes that are
frozen, killed and started anew, nor with a request that arrives when its sender has given up on it. And once the world
behaves, one leads.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.election.candidate import Candidate, Step, Timing
from batchwright.election.lease import Lease

TIMING = Timing(duration=15, renew_deadline=12, retry_period=2)
"""The longest deadline that settings allow."""
assert TIMING.problem() is None
RATES = (0.9, 1.0, 1.1)
"""Of clocks: the quotient of two is less than that of duration and deadline."""
PATIENCE = 5.0
"""How long a process waits for an answer."""
HORIZON, CALM = 300.0, 60.0
Answer = Lease | None


@dataclass(frozen=True)
class Weather:
    """How bad the world is: chances of each call, and events in a hundred seconds."""

    slow: float
    lost: float
    freezes: float
    ends: float


CALM_WEATHER = Weather(0, 0, 0, 0)
weathers = st.builds(
    Weather,
    slow=st.sampled_from([0, 0.05, 0.3, 0.8]),
    lost=st.sampled_from([0, 0.05, 0.3]),
    freezes=st.sampled_from([0, 2, 10]),
    ends=st.sampled_from([0, 2, 10]),
)


class World:
    """The API server, the time, and what happens next."""

    def __init__(self, random: Random, weather: Weather, rates: list[float]) -> None:
        self.random = random
        self.weather = weather
        self.now = 0.0
        self.lease: Answer = None
        self.writes = 0
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._names = itertools.count(1)
        for rate in rates:
            self.start(f"process-{next(self._names)}", rate)

    def start(self, name: str, rate: float) -> None:
        process = Process(self, Candidate(name, TIMING), rate, offset=self.random.uniform(0, 1e6))
        self.processes.append(process)
        self.after(self.random.uniform(0, TIMING.retry_period), process.round)

    def start_after(self, ended: "Process") -> None:
        """In the same pod under the same name, or in another one."""
        name = ended.name if self.random.random() < 0.5 else f"process-{next(self._names)}"
        self.start(name, self.random.choice(RATES))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), event))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] < end:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self.check()
        self.now = end

    def check(self) -> None:
        leading = [process for process in self.processes if process.leads()]
        assert len(leading) <= 1, [process.name for process in leading]
        for process in leading:
            assert self.lease is not None
            assert self.lease.holder == process.name

    def delay(self) -> float | None:
        """How long a message is under way; None where it never arrives."""
        if self.random.random() < self.weather.lost:
            return None
        slow = self.random.random() < self.weather.slow
        return self.random.uniform(0, self.random.choice((PATIENCE, 5 * PATIENCE))) if slow else 0.01

    def call(self, serve: Callable[[], Answer], answered: Callable[[Answer], None]) -> None:
        """Send a request; its answer may come at any time, or never."""

        def arrive() -> None:
            answer, back = serve(), self.delay()
            if back is not None:
                self.after(back, lambda: answered(answer))

        there = self.delay()
        if there is not None:
            self.after(there, arrive)

    def write(self, lease: Lease, over: str | None) -> Answer:
        """The Lease as stored; None for a conflict. It is created where it is to be written over nothing."""
        if (self.lease.version if self.lease else None) != over:
            return None
        self.writes += 1
        self.lease = replace(lease, version=str(self.writes))
        return self.lease


class Process:
    """An operator, as far as it takes part in the election."""

    def __init__(self, world: World, candidate: Candidate, rate: float, offset: float) -> None:
        self.world = world
        self.candidate = candidate
        self.name = candidate.identity
        self.rate = rate
        self.offset = offset
        self.ended = False
        self.frozen_until = 0.0
        self.steps = 0
        self._calls = 0

    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    def leads(self) -> bool:
        return not self.ended and self.candidate.leads(self.clock())

    def round(self) -> None:
        if self._is_frozen(self.round) or self._is_late():
            return
        if self._meets_fate():
            return
        self.candidate, self.steps = self.candidate.next_round(), 0
        self._step()

    def _step(self) -> None:
        candidate, sent_at = self.candidate, self.clock()
        step = candidate.step(sent_at) if self.steps < 4 else Step.WAIT
        self.steps += 1
        match step:
            case Step.LOOK:
                self._call(lambda: self.world.lease, lambda answer: candidate.saw(answer, self.clock()))
            case Step.CLAIM:
                self.candidate = candidate.doubted()
                over = candidate.lease.version if candidate.lease and not candidate.missing else None
                self._call(
                    lambda: self.world.write(candidate.claim(), over),
                    lambda stored: candidate.won(stored, sent_at, self.clock()) if stored else candidate.doubted(),
                )
            case Step.WAIT:
                self.world.after(TIMING.retry_period / self.rate, self.round)

    def _call(self, serve: Callable[[], Answer], understood: Callable[[Answer], Candidate]) -> None:
        self._calls += 1
        number = self._calls

        def answered(answer: Answer) -> None:
            if self._is_frozen(lambda: answered(answer)) or self._calls != number or self._is_late():
                return
            self._calls += 1
            led = self.candidate.leads_until is not None
            self.candidate = understood(answer)
            if led and self.candidate.leads_until is None:
                self._end()
            else:
                self._step()

        def give_up() -> None:
            if self._is_frozen(give_up) or self._calls != number or self._is_late():
                return
            self._calls += 1
            self.candidate = self.candidate.doubted()
            self.world.after(TIMING.retry_period / self.rate, self.round)

        self.world.after(PATIENCE / self.rate, give_up)
        self.world.call(serve, answered)
        self._may_freeze()

    def _meets_fate(self) -> bool:
        """Killed or stopped, now and then."""
        chance, per_round = self.world.random, TIMING.retry_period / 100
        if chance.random() < self.world.weather.ends * per_round:
            if self.leads() and chance.random() < 0.5:
                self._stop()
            else:
                self._end()
        return self.ended

    def _may_freeze(self) -> None:
        """With a request under way, which is the worst moment for it."""
        if self.world.random.random() < self.world.weather.freezes * TIMING.retry_period / 100:
            self.frozen_until = self.world.now + self.world.random.uniform(0, 40)

    def _stop(self) -> None:
        """In an orderly way: it acts no more, then gives the Lease back."""
        candidate = self.candidate.resigned()
        self._end()
        version = candidate.lease.version if candidate.lease else None
        self.world.call(lambda: self.world.write(candidate.release(), version), lambda _: None)

    def _is_frozen(self, later: Callable[[], None]) -> bool:
        if self.ended:
            return True
        if self.world.now < self.frozen_until:
            self.world.after(self.frozen_until - self.world.now, later)
            return True
        return False

    def _is_late(self) -> bool:
        """Past its deadline, where its watch ends it."""
        if self.candidate.leads_until is not None and not self.leads():
            self._end()
        return self.ended

    def _end(self) -> None:
        self.ended = True
        self.world.after(self.world.random.uniform(0.1, 20), lambda: self.world.start_after(self))


@settings(max_examples=100)
@given(
    random=st.randoms(use_true_random=True),
    weather=weathers,
    rates=st.lists(st.sampled_from(RATES), min_size=2, max_size=3),
)
def test_at_most_one_leads_and_in_the_end_one_does(random: Random, weather: Weather, rates: list[float]) -> None:
    world = World(random, weather, rates)
    world.run(HORIZON)
    world.weather = CALM_WEATHER
    world.run(CALM + 40)  # the longest freeze, and the deadline of whoever was frozen as the leader
    assert any(process.leads() for process in world.processes)
