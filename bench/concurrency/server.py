"""A model of an inference server: slots, a queue, batching that slows each request, a cache that fills up.

Work is measured in the seconds that a request takes when it is alone. Everything follows from virtual time: all
requests that run have made the same progress since any moment, so one number says how far they are.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from bench.concurrency.clock import Clock

from batchwright.worker.server.concurrency import ServerLoad
from batchwright.worker.server.load import AnswerTotals

STEPS_PER_SECOND = 50.0
"""Of an engine with one request."""
RECOMPUTED = 0.1
"""What a preempted request loses: its tokens are computed again, ten times as fast as they were generated."""


class End(Enum):
    ANSWERED = auto()
    REFUSED = auto()
    LOST = auto()


@dataclass(slots=True)
class Request:
    work: float
    done: Callable[[End], None]
    priority: int = 0
    prompt: float = 0.0
    """What it takes of the cache at its start, in the unit of work; it grows with its progress."""
    came: float = 0.0
    """When the server got it."""
    arrived: float = 0.0
    """When the engine got it."""
    order: int = 0
    began: float = math.nan
    """When it first began to run."""
    started: float = 0.0
    """Virtual time at which it began to run."""
    running: bool = False


def with_answer(totals: AnswerTotals, request: Request, now: float) -> AnswerTotals:
    """The sums with an answer that is given now."""
    return replace(
        totals,
        count=totals.count + 1,
        seconds=totals.seconds + now - request.came,
        queued=totals.queued + request.began - request.arrived,
        worked_on=totals.worked_on + now - request.began,
        started=1.0,
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    slots: int
    """Requests that run at once (vLLM's max_num_seqs)."""
    half_speed: float = math.inf
    """So many at once make each half as fast. Infinite: throughput is linear up to the slots."""
    cache: float = math.inf
    """Prompts and progress that the cache holds; beyond it the last to begin is preempted."""
    queue: float = math.inf
    """Requests that may wait; one more is refused at once."""
    metrics: bool = True
    front_end: float = 0.0
    """Seconds that its HTTP front end takes for each request, one after the other, before the engine sees it."""

    def start(self, clock: Clock) -> "Server":
        return Server(clock, self)


@dataclass(slots=True)
class Server:
    clock: Clock
    settings: ServerSettings
    down: bool = False
    preemptions: int = 0
    totals: AnswerTotals = field(default_factory=AnswerTotals)
    _front_end_free: float = 0.0
    _virtual: float = 0.0
    _seen: float = 0.0
    _count: int = 0
    _prompts: float = 0.0
    _starts: float = 0.0
    _finishing: list[tuple[float, int, Request]] = field(default_factory=list)
    _waiting: list[tuple[int, int, Request]] = field(default_factory=list)
    _version: int = 0
    _orders: "itertools.count[int]" = field(default_factory=itertools.count)

    def submit(self, request: Request) -> None:
        request.came = self.clock.now
        request.order = next(self._orders)
        if self.down:
            self.clock.after(0.001, lambda: request.done(End.LOST))
        elif self.settings.front_end:
            self._front_end_free = max(self.clock.now, self._front_end_free) + self.settings.front_end
            self.clock.after(self._front_end_free - self.clock.now, lambda: self._enter(request))
        else:
            self._enter(request)

    def _enter(self, request: Request) -> None:
        if self.down:
            request.done(End.LOST)
            return
        request.arrived = self.clock.now
        self._advance()
        full = self._count >= self.settings.slots or self._cache() + request.prompt > self.settings.cache
        if full and len(self._waiting) >= self.settings.queue:
            self.clock.after(0.002, lambda: request.done(End.REFUSED))
            return
        heapq.heappush(self._waiting, (request.priority, request.order, request))
        self._schedule()

    def load(self) -> ServerLoad:
        self._advance()
        cache = self.settings.cache
        usage = 0.5 * self._count / self.settings.slots if math.isinf(cache) else self._cache() / cache
        return ServerLoad(len(self._waiting), self._count, min(1.0, usage))

    def requests(self) -> tuple[int, int]:
        """How many wait, and how many are at work."""
        return len(self._waiting), self._count

    def change(self, settings: ServerSettings) -> None:
        self._advance()
        self.settings = settings
        self._schedule()

    def fail(self) -> None:
        """Everything in it is lost, and nothing is taken until `recover`."""
        self._advance()
        self.down = True
        lost = [item[2] for item in self._finishing if item[2].running] + [item[2] for item in self._waiting]
        self._finishing.clear()
        self._waiting.clear()
        self._count, self._prompts, self._starts = 0, 0.0, 0.0
        self._version += 1
        for request in lost:
            request.running = False
            request.done(End.LOST)

    def recover(self) -> None:
        self.down = False

    def _speed(self) -> float:
        return 1.0 / (1.0 + max(0, self._count - 1) / self.settings.half_speed)

    def _cache(self) -> float:
        return self._prompts + self._count * self._virtual - self._starts

    def _advance(self) -> None:
        progress = (self.clock.now - self._seen) * self._speed()
        steps = self.totals.steps + self._count * progress * STEPS_PER_SECOND
        self.totals = replace(self.totals, steps=steps)
        self._virtual += progress
        self._seen = self.clock.now

    def _begin(self, request: Request) -> None:
        request.running, request.started = True, self._virtual
        request.began = self.clock.now if math.isnan(request.began) else request.began
        self._count += 1
        self._prompts += request.prompt
        self._starts += self._virtual
        heapq.heappush(self._finishing, (self._virtual + request.work, request.order, request))

    def _leave(self, request: Request) -> None:
        request.running = False
        self._count -= 1
        self._prompts -= request.prompt
        self._starts -= request.started

    def _preempt(self) -> None:
        last = max((item[2] for item in self._finishing if item[2].running), key=lambda one: one.order)
        self._leave(last)
        self._finishing = [item for item in self._finishing if item[2] is not last]
        heapq.heapify(self._finishing)
        progress = self._virtual - last.started
        last.work += (RECOMPUTED - 1) * progress
        last.prompt += progress
        self.preemptions += 1
        heapq.heappush(self._waiting, (last.priority, last.order, last))

    def _schedule(self) -> None:
        """Begin what has room, and ask to be called when the next one ends or the cache is full."""
        while self._count > 1 and self._cache() >= self.settings.cache * (1 - 1e-9):
            self._preempt()
        while self._waiting and self._count < self.settings.slots:
            room = self.settings.cache * 0.99 - self._cache()
            if self._count and self._waiting[0][2].prompt > room:
                break
            self._begin(heapq.heappop(self._waiting)[2])
        self._version += 1
        if not self._finishing:
            return
        version, speed = self._version, self._speed()
        wait = max(0.0, self._finishing[0][0] - self._virtual) / speed
        if self._count > 1 and not math.isinf(self.settings.cache):
            wait = min(wait, max(0.0, self.settings.cache - self._cache()) / (self._count * speed))
        self.clock.after(wait, lambda: self._turn(version))

    def _turn(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        ended = []
        while self._finishing and self._finishing[0][0] <= self._virtual + 1e-9:
            request = heapq.heappop(self._finishing)[2]
            self._leave(request)
            ended.append(request)
        self._schedule()
        for request in ended:
            self.totals = with_answer(self.totals, request, self.clock.now)
            request.done(End.ANSWERED)
