"""Who leads: the rules of one candidate for a Lease. Pure: every moment is given, on a clock that never goes back.

The rules are those of client-go's leader election, which Kubernetes' own controllers follow:

1. A candidate takes a Lease that nobody holds, or that did not change for as long as its holder wrote into it. It
   counts from the moment at which it received the last change, on its own clock: the other's clock doesn't matter.
2. Every write names the version that it replaces, so that of two candidates one loses.
3. A leader counts from the moment at which it sent the write that the server took, and leads no longer than
   `renew_deadline` after that. The deadline is shorter than the duration, so it has stopped before another can begin.
4. Who stops in an orderly way gives the Lease back, and the next one need not wait.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from batchwright.election.lease import Lease

SHORTEST_DURATION = 5.0
LONGEST_DURATION = 300.0
_DEADLINE_SHARE = 0.8
"""Of the duration. Leaves room for two clocks whose rates differ by a quarter, and for the end of a process."""
_PERIODS_IN_DEADLINE = 2
"""One renewal may fail."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. The defaults are those of Kubernetes' own controllers."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def problem(self) -> str | None:
        """Why an election with these would not be safe, or would flap; None where it is well."""
        if not SHORTEST_DURATION <= self.duration <= LONGEST_DURATION or self.duration != int(self.duration):
            return f"the duration must be whole seconds, {SHORTEST_DURATION:.0f} to {LONGEST_DURATION:.0f}"
        if self.renew_deadline > _DEADLINE_SHARE * self.duration:
            return "the renew deadline must be at most four fifths of the duration"
        if self.retry_period * _PERIODS_IN_DEADLINE > self.renew_deadline:
            return "the retry period must be at most half of the renew deadline"
        return None


class Step(Enum):
    """What a candidate does next."""

    LOOK = auto()
    """Read the Lease."""
    CLAIM = auto()
    """Write `Candidate.claim` over the version that was read, or create it where there is none."""
    WAIT = auto()
    """Nothing, until the next round."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one candidate knows. `identity` is no other living process's."""

    identity: str
    timing: Timing = Timing()
    lease: Lease | None = None
    """As it was last seen; None before it was ever seen."""
    missing: bool = False
    """The last look found no Lease."""
    unchanged_since: float = 0.0
    """When this version of the Lease was received first."""
    unsure: bool = True
    """What was seen may be old: look before the next claim."""
    leads_until: float | None = None

    def leads(self, at: float) -> bool:
        """Whether it may act at this moment."""
        return self.leads_until is not None and at < self.leads_until

    def step(self, at: float) -> Step:
        """What to do now."""
        if self.leads_until is not None and not self.leads(at):
            return Step.WAIT  # too late: this process must end
        if self.unsure:
            return Step.LOOK
        return Step.CLAIM if self._is_free(at) else Step.WAIT

    def next_round(self) -> "Candidate":
        """A retry period has passed: who doesn't lead looks anew."""
        return self if self.leads_until is not None else replace(self, unsure=True)

    def saw(self, lease: Lease | None, at: float) -> "Candidate":
        """A look was answered, at this moment. A leader that sees another holder leads no more."""
        if lease is None:
            # The holder that was seen may not know yet that the Lease is gone, so its time still counts.
            return replace(self, missing=True, unsure=False)
        seen = replace(self, missing=False, unsure=False)
        if self.missing or self.lease is None or lease.version != self.lease.version:
            seen = replace(seen, lease=lease, unchanged_since=at)
        if lease.holder not in ("", self.identity):
            seen = replace(seen, leads_until=None)
        return seen

    def claim(self) -> Lease:
        """The Lease as this candidate would have it; for a leader, a renewal."""
        before = self.lease or Lease("")
        mine = before.holder == self.identity
        first = self.lease is None
        return Lease(
            holder=self.identity,
            duration=self.timing.duration,
            transitions=before.transitions + (0 if mine or first else 1),
            acquired_at=before.acquired_at if mine else "",
        )

    def won(self, stored: Lease, sent_at: float, at: float) -> "Candidate":
        """The server took the claim that was sent then; its answer was received at this moment, perhaps too late."""
        deadline = sent_at + self.timing.renew_deadline
        return replace(
            self,
            lease=stored,
            missing=False,
            unchanged_since=sent_at,
            unsure=False,
            leads_until=deadline if at < deadline else None,
        )

    def doubted(self) -> "Candidate":
        """A claim met another version, or nobody knows what became of it."""
        return replace(self, unsure=True)

    def resigned(self) -> "Candidate":
        """From now on it doesn't act."""
        return replace(self, leads_until=None)

    def release(self) -> Lease:
        """The Lease as it is given back: anybody may take it at once."""
        assert self.lease is not None, "only a Lease that was held is given back"
        return Lease(holder="", duration=1.0, transitions=self.lease.transitions)

    def _is_free(self, at: float) -> bool:
        if self.leads_until is not None or self.lease is None or self.lease.holder in ("", self.identity):
            return True
        return at - self.unchanged_since >= (self.lease.duration or self.timing.duration)
