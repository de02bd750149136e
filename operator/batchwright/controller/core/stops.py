"""Who or what stops a BatchJob before every request has ended, and what it ends as.

    cancel             cancelling ────────────▶ cancelled   Cancelled
    end of the window  finalizing, Expiring ──▶ expired     Expired
    too many failures  finalizing, Failing ───▶ failed      TooManyFailures
    the run failed     finalizing, Failing ───▶ failed      its reason

A cancel stands once it was seen, and any stop once the condition FailureTarget has it, which is written before the
merge that closes it is created. Until then it is found anew in each pass: a window that is extended in time goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from batchwright.api import failure_limit
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.duration import format_duration
from batchwright.api.undone import Undone
from batchwright.controller.core import conditions, counts, merging, running, window
from batchwright.controller.core.merging import Published
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.reports import Failure

UNREADABLE: Final = frozenset({Reason.PLAN_UNREADABLE})
"""Failures of a run after which a merge would find nothing that it can read."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop: the code of the requests that are left, and why. `why` is what the condition Failed will say."""

    undone: Undone
    why: Failure

    @staticmethod
    def failing(why: Failure) -> "Stop":
        """The run failed for good."""
        return Stop(Undone.FAILED, why)

    @property
    def phase(self) -> Phase:
        """The phase while the work is closed."""
        return Phase.CANCELLING if self.undone is Undone.CANCELLED else Phase.FINALIZING

    @property
    def reason(self) -> Reason:
        """Why it is Reconciling meanwhile."""
        return _REASONS[self.undone]

    @property
    def cause(self) -> str:
        """What a person reads of it meanwhile."""
        return "Cancelling." if self.undone is Undone.CANCELLED else self.why.message

    @property
    def end(self) -> Phase:
        """The terminal phase."""
        return _ENDS[self.undone]


_REASONS: Mapping[Undone, Reason] = {
    Undone.CANCELLED: Reason.CANCELLING,
    Undone.EXPIRED: Reason.EXPIRING,
    Undone.FAILED: Reason.FAILING,
}
_ENDS: Mapping[Undone, Phase] = {
    Undone.CANCELLED: Phase.CANCELLED,
    Undone.EXPIRED: Phase.EXPIRED,
    Undone.FAILED: Phase.FAILED,
}
_CANCEL: Final = Stop(Undone.CANCELLED, Failure(Reason.CANCELLED, "Cancelled."))
_CODES: Mapping[Reason, Undone] = {Reason.CANCELLED: Undone.CANCELLED, Reason.EXPIRED: Undone.EXPIRED}


def cause(observed: Observed, spec: BatchJobSpec, now: datetime) -> Stop | None:
    """What stops the BatchJob; None while it may go on. Where several do: a cancel, then the window, then failures."""
    merge = merging.look(observed)
    published = merge if isinstance(merge, Published) else None
    if observed.status.cancelling_at is not None or (spec.cancel and published is None):
        return _CANCEL
    return targeted(observed) or _expiry(observed, spec, published, now) or _failure(observed, spec, published)


def targeted(observed: Observed) -> Stop | None:
    """The stop that stands, whatever has become of its cause."""
    target = conditions.find(observed.status, ConditionType.FAILURE_TARGET)
    if target is None or target.status != "True":
        return None
    reason = Reason(target.reason) if target.reason in set(Reason) else Reason.RUN_FAILED
    return Stop(_CODES.get(reason, Undone.FAILED), Failure(reason, target.message))


def _expiry(observed: Observed, spec: BatchJobSpec, published: Published | None, now: datetime) -> Stop | None:
    end = window.expires_at(observed, spec)
    if end is None or now < end or (published is not None and published.at < end):
        return None
    length = f" of {format_duration(spec.completion_window)}" if spec.completion_window else ""
    return Stop(Undone.EXPIRED, Failure(Reason.EXPIRED, f"Not done within the completion window{length}."))


def _failure(observed: Observed, spec: BatchJobSpec, published: Published | None) -> Stop | None:
    if observed.status.fingerprint is None:
        return None
    counted = counts.without_repetitions(observed.status, observed.progress)
    limit = failure_limit.exceeded(spec, published.report.request_counts if published else counted)
    if limit is not None:
        text = f"More requests failed than spec.requests.maxFailures ({limit}) allows."
        return Stop.failing(Failure(Reason.TOO_MANY_FAILURES, text))
    failure = running.failure(observed)
    return Stop.failing(failure) if failure is not None and failure.reason not in UNREADABLE else None
