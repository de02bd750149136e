"""How many requests a worker may have in flight: what tells it so, and the rules for it, with the clock passed in."""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Protocol

FEW_STEPS: Final = 8
"""Of answers that take less, an engine's numbers miss more than an eighth of those at work."""


class Signal(Enum):
    """What the end of one try says about the server's load."""

    SUCCESS = auto()
    """An answer that the server worked for."""
    OVERLOAD = auto()
    """The server had no room: 429, 503, or no answer in time."""
    OTHER = auto()
    """Says nothing about load: a request the server refused as bad, a broken connection."""


@dataclass(frozen=True, slots=True)
class LatestAnswers:
    """What the server says of the answers that it gave since the sample before."""

    count: int
    within: float
    """Seconds from the sample before to this one."""
    seconds: float
    """How long one was in the server, in the mean: in its front end, the engine's queue, and the engine."""
    queued: float
    """Seconds of these in the engine's queue."""
    worked_on: float
    """Seconds of these in the engine."""
    steps: float
    """That the engine made for all requests meanwhile, for each of these answers: as many as one takes, where they come
    evenly. One for each token but for those that a draft model guessed, none for an embedding."""

    @property
    def at_work(self) -> float:
        """Requests in the engine at a time, in the mean, where answers take no longer than `within` (Little's law)."""
        return self.count * self.worked_on / self.within

    @property
    def in_queue(self) -> float:
        """Requests before the engine at a time, likewise."""
        return self.count * self.queued / self.within

    @property
    def front_end(self) -> float:
        """Seconds of these in the front end, which counts from when it has read a request to when it has the answer."""
        return self.seconds - self.queued - self.worked_on


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """A sample of the server's own metrics: all its traffic, this worker's and everybody else's."""

    waiting: int
    """Requests that the server has accepted and not begun."""
    running: int
    """Requests that it works on."""
    kv_cache_usage: float
    """Part of the memory for keys and values that is taken, 0 to 1; the mean of several engines."""
    fullest_kv_cache: float = 0.0
    """Of the fullest of several engines."""
    latest: LatestAnswers | None = None
    """None where the server doesn't count them, or there were none."""

    @property
    def requests(self) -> int:
        """In the engine or before it."""
        return self.waiting + self.running

    @property
    def in_a_step(self) -> float:
        """Answers that ended in a step of the engine, in the mean, and so requests that came in it."""
        if self.latest is None:
            return 0.0
        at_work = self.latest.at_work if self.latest.steps < FEW_STEPS else self.running
        return at_work / max(1.0, self.latest.steps)

    def with_those_between_steps(self) -> "ServerLoad":
        """The same with as many at work as there were in the mean, where answers take few steps of the engine.

        It shows its numbers at the end of a step, when those that ended with it have gone and the next have not begun:
        of embeddings and answers of few tokens hardly any.
        """
        latest = self._short_answers()
        if latest is None or latest.steps >= FEW_STEPS:
            return self
        return replace(self, running=max(self.running, round(latest.at_work)))

    def in_the_mean(self) -> "ServerLoad":
        """The same with as many as there were in the mean, where answers took no longer than from sample to sample."""
        latest = self._short_answers()
        if latest is None:
            return self
        return replace(self, running=round(latest.at_work), waiting=round(latest.in_queue))

    def without_waves(self, samples: float) -> "ServerLoad":
        """The same with no more waiting than there were in the mean: answers of one length are followed in waves.

        Args:
            samples: the mean counts where answers took no longer than from one sample to the next, so many times over.
        """
        latest = self._short_answers(samples)
        if latest is None:
            return self
        return replace(self, waiting=min(self.waiting, round(latest.in_queue)))

    def _short_answers(self, samples: float = 1.0) -> LatestAnswers | None:
        """The latest answers, where they took no longer than from one sample to the next, so many times over."""
        short = self.latest is not None and self.latest.seconds <= samples * self.latest.within
        return self.latest if short else None


class Limit(Protocol):
    """A rule for how many requests may be in flight."""

    @property
    def limit(self) -> int:
        """Requests in flight allowed now, at least 1."""
        ...

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        """A try has ended.

        Args:
            now: monotonic time, in seconds.
            seconds: how long the try took.
            in_flight: requests in flight as it ended, itself included.
            signal: what its end says about the server's load.
        """
        ...

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None:
        """The server's metrics have been read at `now`, with so many requests in flight."""
        ...

    def restart(self, now: float) -> None:
        """The server is back after an outage at `now`: what was known of it no longer holds."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLimit:
    """Always the same number, whatever the server says."""

    limit: int

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"a limit is at least 1, not {self.limit}")

    def finished(self, now: float, seconds: float, in_flight: int, signal: Signal) -> None:
        """Changes nothing."""

    def loaded(self, now: float, load: ServerLoad, in_flight: int) -> None:
        """Changes nothing."""

    def restart(self, now: float) -> None:
        """Changes nothing."""
