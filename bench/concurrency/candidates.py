"""Rules to choose among. The known ones are written here as their authors describe them, as small as they get."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.concurrency.scenarios import MakeLimit

from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.concurrency import FixedLimit, Limit, ServerLoad, Signal

START = 8


@dataclass(slots=True)
class _Rule:
    maximum: int
    exact: float = START

    @property
    def limit(self) -> int:
        return int(self.exact)

    def set(self, value: float) -> None:
        self.exact = max(1.0, min(float(self.maximum), value))

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None: ...

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None: ...

    def restart(self, now: float) -> None:
        self.set(START)


@dataclass(slots=True)
class ErrorsOnly(_Rule):
    """AIMD: one more for each round trip, half for each refusal."""

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        if signal is Signal.OVERLOAD:
            self.set(self.exact / 2)
        elif signal is Signal.SUCCESS:
            self.set(self.exact + 1 / self.exact)


@dataclass(slots=True)
class Gradient2(_Rule):
    """Netflix's concurrency-limits: long-term over present latency, and room for a queue of 4."""

    long: float = 0.0
    count: int = 0
    total: float = 0.0
    window: int = 0
    since: float = 0.0

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        if signal is not Signal.SUCCESS:
            if signal is Signal.OVERLOAD:
                self.set(self.exact * 0.9)
            return
        self.total += seconds
        self.window += 1
        if now - self.since < 1.0 or self.window < 10:
            return
        short = self.total / self.window
        self.total, self.window, self.since = 0.0, 0, now
        self.count += 1
        weight = 1 / self.count if self.count <= 10 else 2 / 601
        self.long += (short - self.long) * weight
        if self.long / short > 2:
            self.long *= 0.9
        if in_flight < self.exact / 2:
            return
        gradient = max(0.5, min(1.0, 1.5 * self.long / short))
        self.set(self.exact * 0.8 + (self.exact * gradient + 4) * 0.2)


@dataclass(slots=True)
class Vegas(_Rule):
    """The queue by the least latency ever seen: grow while it is under a tenth, shrink while it is over a fifth."""

    least: float = 0.0
    total: float = 0.0
    window: int = 0
    since: float = 0.0

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        if signal is Signal.OVERLOAD:
            self.set(self.exact * 0.9)
        if signal is not Signal.SUCCESS:
            return
        self.total += seconds
        self.window += 1
        if self.window < 10 or now - self.since < self.total / self.window:
            return
        mean = self.total / self.window
        self.total, self.window, self.since = 0.0, 0, now
        self.least = min(self.least or mean, mean)
        queue = self.exact * (1 - self.least / mean)
        if in_flight < self.exact / 2:
            return
        if queue < max(3, self.exact / 10):
            self.set(self.exact + max(1, self.exact / 10))
        elif queue > max(6, self.exact / 5):
            self.set(self.exact * 0.9)


@dataclass(slots=True)
class HillClimbing(_Rule):
    """A step up or down each second; the other way where its own throughput fell."""

    count: int = 0
    since: float = 0.0
    last: float = 0.0
    step: float = 1.1

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        if signal is Signal.OVERLOAD:
            self.set(self.exact * 0.9)
        if signal is not Signal.SUCCESS:
            return
        self.count += 1
        if now - self.since < 1.0 or self.count < 10:
            return
        rate = self.count / (now - self.since)
        self.count, self.since = 0, now
        if rate < self.last * (1.03 if self.step > 1 else 0.97):
            self.step = 1 / self.step
        self.last = rate
        self.set(self.exact * self.step + (0.5 if self.step > 1 else -0.5))


@dataclass(slots=True)
class QueueOnly(_Rule):
    """AIMD on the server's own queue: three more a second, a tenth less where somebody waits."""

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        if signal is Signal.OVERLOAD:
            self.set(self.exact * 0.9)

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None:
        self.set(self.exact * 0.9 if load.waiting or load.kv_cache_usage > 0.95 else self.exact + 3)


def maximal(maximum: int) -> Limit:
    return FixedLimit(maximum)


CANDIDATES: Mapping[str, MakeLimit] = {
    "always the maximum": maximal,
    "AIMD on errors": ErrorsOnly,
    "Gradient2": Gradient2,
    "Vegas": Vegas,
    "hill climbing": HillClimbing,
    "AIMD on the queue": QueueOnly,
    "adaptive": AdaptiveLimit,
}
