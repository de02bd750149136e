"""A server as Availability is told of it, event after event. The clock is a number."""

import math
from dataclasses import dataclass, field

from batchwright.worker.server.availability import Availability
from batchwright.worker.server.findings import Cause, Failure, Health, Step, WatchTimes
from batchwright.worker.server.verdicts import Kind

TIMES = WatchTimes()


@dataclass
class Server:
    """Availability over time; each event comes `after` seconds after the one before it."""

    now: float = 100.0
    untried: bool = False
    """Whether there are lines that were never sent."""
    availability: Availability = field(init=False)

    def __post_init__(self) -> None:
        self.availability = Availability(TIMES, has_untried=lambda: self.untried, chance=lambda: 1.0)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def answered(self, took: float = 0.05) -> None:
        self.now += took
        self.availability.answered(self.now, self.now - took)

    def failed(
        self,
        kind: Kind,
        line: str = "a",
        *,
        took: float = 0.05,
        clean: bool = True,
        heard: bool = True,
        after: float | None = None,
    ) -> Failure:
        self.now += took
        failure = Failure(kind, line, f"{kind.name}.", self.now - took, clean, heard, after)
        self.availability.failed(self.now, failure)
        return failure

    def probed(self, health: Health, took: float = 0.01) -> bool:
        self.now += took
        return self.availability.probed(self.now, health, began=self.now - took, cause="the probe failed")

    def charges(
        self,
        failure: Failure,
        *,
        pause: float = 0.5,
        ended: float | None = None,
        untried: bool = False,
        health: Health = Health.ALIVE,
    ) -> bool:
        """What is settled after the pause, once nothing is in flight any more, and after the probes that it takes."""
        ended = self.now if ended is None else ended
        self.now += pause
        self.untried = untried
        for _ in range(3):
            settled = self.availability.settles(self.now, failure, ended=ended, oldest=math.inf)
            if settled is not None:
                return settled
            assert self.availability.next_at(self.now, 0) < float("inf")
            self.wait(max(self.availability.next_at(self.now, 0) - self.now, 0.0))
            assert self.step(in_flight=0) is Step.PROBE
            self.probed(health)
        raise AssertionError("two probes settle it")

    def is_open_question(self, failure: Failure, *, ended: float, oldest: float) -> bool:
        return self.availability.settles(self.now, failure, ended=ended, oldest=oldest) is None

    @property
    def cause(self) -> Cause | None:
        return self.availability.away.cause if self.availability.away else None

    @property
    def is_open(self) -> bool:
        return self.availability.is_open(self.now)

    def step(self, in_flight: int = 1) -> Step | None:
        return self.availability.step(self.now, in_flight)

    def gone(self) -> "Server":
        """Two probes have failed."""
        self.failed(Kind.UNAVAILABLE)
        self.probed(Health.GONE)
        self.wait(1.0)
        self.probed(Health.GONE)
        assert self.cause is Cause.PROBE
        return self

    def erring(self) -> "Server":
        """Two lines have failed, and no other was answered."""
        self.failed(Kind.CHARGED, "a")
        failure = self.failed(Kind.CHARGED, "b")
        assert not self.charges(failure)
        assert self.cause is Cause.ERRORS
        return self
