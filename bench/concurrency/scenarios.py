"""What happens to a server and its workers; each has a knee that is known, or found by trying fixed limits."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.concurrency.clock import Clock
from bench.concurrency.server import ServerSettings
from bench.concurrency.stepping import SteppingSettings
from bench.concurrency.traffic import Draw, People, Worker, exponential, fixed, heavy

from batchwright.worker.server.concurrency import Limit

MakeLimit = Callable[[int], Limit]
"""From the most that a worker may have in flight to its rule."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    server: ServerSettings | SteppingSettings
    workers: int = 1
    maximum: int = 64
    """For each worker."""
    length: Draw = field(default_factory=lambda: exponential(1.0))
    prompt: Draw = field(default_factory=lambda: fixed(0.0))
    seconds: float = 120.0
    settled: float = 40.0
    """From here on throughput, queue and fairness are measured."""
    people: float = 0.0
    """Interactive requests a second."""
    people_length: Draw = field(default_factory=lambda: exponential(0.5))
    preferred: bool = False
    joining: Sequence[tuple[float, int]] = ()
    """When so many workers come (or, negative, leave)."""
    outage: tuple[float, float] | None = None
    changes: Sequence[tuple[float, ServerSettings]] = ()
    demand: Sequence[tuple[float, int | None]] = ()
    """When fewer lines are there to be sent than the workers would take."""
    lengths: Sequence[tuple[float, Draw]] = ()
    """When the lines become longer or shorter."""


@dataclass(slots=True)
class Trace:
    """What was seen, second by second."""

    seconds: list[float] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    limits: list[list[int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Played:
    scenario: Scenario
    workers: list[Worker]
    people: People
    trace: Trace
    preemptions: int

    def rate(self, begin: float, end: float) -> float:
        """Work answered to batch requests, a second."""
        done = sum(work for one in self.workers for time, work in one.answered if begin <= time < end)
        return done / (end - begin)

    def mean(self, values: Sequence[int], begin: float, end: float) -> float:
        """Of a column of the trace."""
        chosen = [value for time, value in zip(self.trace.seconds, values, strict=True) if begin <= time < end]
        return sum(chosen) / len(chosen)

    def reached(self, running: float, since: float) -> float:
        """Seconds from `since` until so many requests are worked on; infinite where that never happens."""
        pairs = zip(self.trace.seconds, self.trace.running, strict=True)
        return next((time - since for time, count in pairs if time >= since and count >= running), math.inf)

    def fairness(self) -> float:
        """Jain's index of the work that the workers that are left got done: 1 where all got the same."""
        done = [
            sum(work for time, work in one.answered if time >= self.scenario.settled)
            for one in self.workers
            if not one.stopped
        ]
        return sum(done) ** 2 / (len(done) * sum(one * one for one in done)) if any(done) else 0.0

    def people_p99(self) -> float:
        """Seconds that 99 % of the interactive requests took at most."""
        took = sorted(seconds for began, seconds in self.people.latencies if began >= self.scenario.settled)
        return took[int(0.99 * len(took))] if took else math.inf


def play(scenario: Scenario, make: MakeLimit, seed: int = 1) -> Played:
    """Run a scenario to its end."""
    if isinstance(scenario.server, SteppingSettings) and (scenario.outage or scenario.changes):
        raise ValueError(f"{scenario.name}: that server neither fails nor changes")
    clock, trace, workers = Clock(), Trace(), list[Worker]()
    server = scenario.server.start(clock)
    seeds = random.Random(seed)

    def join(count: int) -> None:
        for one in [one for one in workers if not one.stopped][: max(0, -count)]:
            one.stop()
        for _ in range(count):
            chance = random.Random(seeds.random())
            limit = make(scenario.maximum)
            worker = Worker(clock, server, limit, scenario.maximum, scenario.length, scenario.prompt, chance)
            workers.append(worker)
            clock.after(chance.uniform(0.0, 0.5), worker.start)

    def demand(lines: int | None) -> None:
        for worker in workers:
            worker.demand = lines
            worker.fill()

    def change_length(length: Draw) -> None:
        for worker in workers:
            worker.length = length

    def recover() -> None:
        server.recover()
        for worker in workers:
            clock.after(worker.chance.random(), worker.restart)

    def look() -> None:
        trace.seconds.append(clock.now)
        trace.in_flight.append(sum(one.in_flight for one in workers))
        trace.limits.append([0 if one.stopped else one.limit.limit for one in workers])
        waiting, running = server.requests()
        trace.waiting.append(waiting)
        trace.running.append(running)

    join(scenario.workers)
    for time, count in scenario.joining:
        clock.at(time, lambda count=count: join(count))
    for time, settings in scenario.changes:
        clock.at(time, lambda settings=settings: server.change(settings))
    for time, length in scenario.lengths:
        clock.at(time, lambda length=length: change_length(length))
    for time, lines in scenario.demand:
        clock.at(time, lambda lines=lines: demand(lines))
    if scenario.outage is not None:
        clock.at(scenario.outage[0], server.fail)
        clock.at(scenario.outage[1], recover)
    chance = random.Random(seed + 1000)
    people = People(clock, server, scenario.people, scenario.people_length, chance, scenario.preferred)
    if scenario.people:
        people.start()
    clock.every(0.25, look)
    clock.run_until(scenario.seconds)
    return Played(scenario, workers, people, trace, server.preemptions)


SLOTS = ServerSettings(slots=48)
"""Throughput grows up to 48 at once, then only the queue does."""
BATCHING = ServerSettings(slots=256, half_speed=128.0)
"""As a GPU: 256 at once are three times as slow as one alone, and do 85 times the work."""
FRONT_END = ServerSettings(slots=256, half_speed=256.0, front_end=0.0015)
"""Answers of a tenth of a second: the engine would do more, and seems idle to whoever has many in flight."""
CACHE = ServerSettings(slots=256, half_speed=128.0, cache=256.0)
"""Long answers fill the cache well before the slots."""
STEPS = SteppingSettings(slots=256, begun=64, step=0.05, each=0.0004)
"""A step for each token: of answers of few tokens its metrics show hardly any at work, and many waiting."""
EMBEDDING = SteppingSettings(slots=256, begun=16, step=0.02, each=0.002, ahead=False)
"""Each step takes sixteen, and ends them."""


def blind(settings: ServerSettings) -> ServerSettings:
    return replace(settings, metrics=False)


def refusing(settings: ServerSettings) -> ServerSettings:
    return replace(settings, metrics=False, queue=settings.slots / 4)


def pairs_of(settings: ServerSettings) -> list[tuple[str, ServerSettings]]:
    return [("metrics", settings), ("blind", blind(settings)), ("429", refusing(settings))]


def scenarios() -> list[Scenario]:
    found = []
    for kind, server in pairs_of(SLOTS):
        found += [
            Scenario(f"slots, 1 worker, {kind}", server, maximum=256),
            Scenario(f"slots, 8 workers, {kind}", server, workers=8),
            Scenario(f"slots, 1+3+4-4 workers, {kind}", server, joining=[(40, 3), (80, 4), (120, -4)], seconds=160),
            Scenario(f"slots, long answers, {kind}", server, length=exponential(30.0), seconds=600, settled=200),
            Scenario(f"slots, heavy tail, 4 workers, {kind}", server, workers=4, length=heavy(1.0)),
            Scenario(f"slots, even answers, {kind}", server, maximum=256, length=fixed(1.0)),
            Scenario(f"outage, {kind}", server, workers=4, outage=(60, 70)),
            Scenario(
                f"knee moves 48, 96, 24, {kind}",
                server,
                workers=4,
                seconds=180,
                changes=[(60, replace(server, slots=96)), (120, replace(server, slots=24))],
            ),
            Scenario(f"lines run short, {kind}", server, maximum=256, demand=[(40, 6), (80, None)], settled=82),
        ]
        found.append(
            Scenario(
                f"lines get longer, {kind}",
                server,
                workers=2,
                length=fixed(1.0),
                lengths=[(60, fixed(5.0))],
                seconds=300,
                settled=120,
            )
        )
    for kind, server in pairs_of(BATCHING):
        found.append(Scenario(f"batching, 8 workers, {kind}", server, workers=8, length=heavy(1.0)))
    for kind, server in pairs_of(CACHE)[:2]:
        found.append(
            Scenario(f"cache, 4 workers, {kind}", server, workers=4, maximum=256, length=heavy(2.0), prompt=fixed(0.5))
        )
    for kind, server in pairs_of(FRONT_END)[:2]:
        found += [
            Scenario(
                f"short answers, {workers} worker{'s' if workers > 1 else ''}, {kind}",
                server,
                workers=workers,
                maximum=2048 // workers,
                length=fixed(0.1),
                seconds=60,
                settled=20,
            )
            for workers in (1, 4)
        ]
    for kind, metrics in (("metrics", True), ("blind", False)):
        found += [
            Scenario(
                f"{name}, {kind}", replace(server, metrics=metrics), maximum=512, length=length, seconds=60, settled=20
            )
            for name, server, length in (
                ("embeddings", EMBEDDING, fixed(1)),
                ("1 token", STEPS, fixed(1)),
                ("4 tokens", STEPS, fixed(4)),
                ("16 tokens", STEPS, fixed(16)),
                ("about 16 tokens", STEPS, exponential(16)),
            )
        ]
    for kind, server in pairs_of(SLOTS):
        found += [
            Scenario(f"people, 1 worker, {kind}", server, maximum=256, people=20.0, seconds=240),
            Scenario(f"people, 8 workers, {kind}", server, workers=8, people=20.0, seconds=240),
            Scenario(
                f"people, long batch, {kind}", server, workers=4, people=20.0, length=exponential(8.0), seconds=240
            ),
        ]
    return found
