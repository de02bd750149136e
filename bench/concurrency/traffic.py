"""Who sends: workers that always have a line left, each with a rule of its own, and people who come when they like."""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench.concurrency.clock import Clock
from bench.concurrency.server import End, Request, Server
from bench.concurrency.stepping import SteppingServer

from batchwright.worker.server.concurrency import Limit, Signal
from batchwright.worker.server.load import Metrics, latest_answers

Draw = Callable[[random.Random], float]
SAMPLE_SECONDS = 1.0
BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
PATIENCE_SECONDS = 1.0
"""After it somebody who was refused tries again."""


def fixed(work: float) -> Draw:
    return lambda chance: work


def exponential(mean: float) -> Draw:
    return lambda chance: chance.expovariate(1.0 / mean)


def heavy(mean: float, spread: float = 1.0) -> Draw:
    """Lognormal: with a spread of 1 the longest of a hundred is ten times the median; capped at 30 means."""
    return lambda chance: min(30 * mean, chance.lognormvariate(math.log(mean) - spread * spread / 2, spread))


@dataclass(slots=True)
class Worker:
    clock: Clock
    server: Server | SteppingServer
    limit: Limit
    maximum: int
    length: Draw
    prompt: Draw
    chance: random.Random
    demand: int | None = None
    """Lines that are there to be sent at once, where they are fewer than `maximum`."""
    stopped: bool = False
    in_flight: int = 0
    answered: list[tuple[float, float]] = field(default_factory=list)
    """When, and of how much work."""
    refused: int = 0
    _metrics: Metrics | None = None
    _sampled_at: float = 0.0
    _resting: int = 0
    _again: deque[tuple[float, int]] = field(default_factory=deque)
    """Lines that were refused and have rested: their length, and how often they were refused."""

    def start(self) -> None:
        self.fill()
        if self.server.settings.metrics:
            self.clock.every(SAMPLE_SECONDS, self._sample, first=self.clock.now + self.chance.random())

    def stop(self) -> None:
        self.stopped = True

    def restart(self) -> None:
        """The server is back from an outage."""
        self.limit.restart(self.clock.now)
        self.fill()

    def fill(self) -> None:
        ready = self.maximum if self.demand is None else min(self.maximum, self.demand)
        while (
            not self.stopped
            and not self.server.down
            and self.in_flight < self.limit.limit
            and self.in_flight + self._resting < ready
        ):
            self._send()

    def _send(self) -> None:
        self.in_flight += 1
        began = self.clock.now
        work, refusals = self._again.popleft() if self._again else (self.length(self.chance), 0)

        def done(end: End) -> None:
            signal = {End.ANSWERED: Signal.SUCCESS, End.REFUSED: Signal.OVERLOAD, End.LOST: Signal.OTHER}[end]
            self.limit.finished(self.clock.now, self.clock.now - began, self.in_flight, signal)
            self.in_flight -= 1
            if end is End.ANSWERED:
                self.answered.append((self.clock.now, work))
            elif end is End.REFUSED:
                self._rest(work, refusals + 1)
            self.fill()

        self.server.submit(Request(work, done, priority=1, prompt=self.prompt(self.chance)))

    def _rest(self, work: float, refusals: int) -> None:
        """Back off with full jitter, as the sender does."""
        self.refused += 1
        self._resting += 1

        def rested() -> None:
            self._resting -= 1
            self._again.append((work, refusals))
            self.fill()

        longest = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** min(refusals - 1, 16))
        self.clock.after(self.chance.uniform(0.0, longest), rested)

    def _sample(self) -> None:
        if not self.server.down and self.in_flight and not self.stopped:
            metrics = Metrics(self.server.load(), self.server.totals)
            latest = latest_answers(self._metrics, metrics, self.clock.now - self._sampled_at)
            self._metrics, self._sampled_at = metrics, self.clock.now
            self.limit.loaded(self.clock.now, replace(metrics.load, latest=latest), self.in_flight)
            self.fill()


@dataclass(slots=True)
class People:
    """Interactive traffic: arrivals at random, `rate` a second."""

    clock: Clock
    server: Server | SteppingServer
    rate: float
    length: Draw
    chance: random.Random
    preferred: bool = False
    """Whether the server takes them first."""
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """When they came, and how long they waited for their answer."""

    def start(self) -> None:
        self.clock.after(self.chance.expovariate(self.rate), self._arrive)

    def _arrive(self) -> None:
        self._ask(self.clock.now, self.length(self.chance))
        self.start()

    def _ask(self, began: float, work: float) -> None:
        def done(end: End) -> None:
            if end is End.ANSWERED:
                self.latencies.append((began, self.clock.now - began))
            elif end is End.REFUSED:
                self.clock.after(PATIENCE_SECONDS, lambda: self._ask(began, work))

        self.server.submit(Request(work, done, priority=0 if self.preferred else 1))
