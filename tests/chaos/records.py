"""What was done, and what came of it: values that the checks and the report are made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.script import Action, Kill, Manner, Target


@dataclass(frozen=True, slots=True)
class Carried:
    """A kill that was carried out."""

    kill: Kill
    at: float
    """Seconds from the beginning, when it was done."""
    victim: str
    """What it hit, for people."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """Workers of the run that lost something by it, for each BatchJob."""
    recovered: float | None = None
    """Seconds until what was killed worked again; None where that was not to be seen."""

    @property
    def target(self) -> Target:
        return self.kill.target

    @property
    def manner(self) -> Manner:
        return self.kill.manner


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was taken with a BatchJob."""

    job: str
    action: Action
    at: float
    live: bool = True
    """Whether it had workers, perhaps: it had not ended."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the storage was away, in seconds from the beginning."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def within(self, start: float, end: float) -> float:
        """Seconds of it between two moments."""
        return max(0.0, min(self.end, end) - max(self.start, start))


@dataclass(frozen=True, slots=True)
class History:
    """All that was done in one run."""

    kills: tuple[Carried, ...]
    steps: tuple[Taken, ...]
    storage_outages: tuple[Outage, ...]
    seconds: float
    """From the beginning to the last BatchJob's end."""
    undone: tuple[Kill, ...] = ()
    """Kills that found nothing to kill, or came after the end."""
    oddities: tuple[str, ...] = ()
    """What was seen on the way and must not be."""

    def actions(self, job: str) -> frozenset[Action]:
        """The steps that were taken with a BatchJob."""
        return frozenset(step.action for step in self.steps if step.job == job)
