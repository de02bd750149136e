"""Cancel and expiry: the children are deleted, and once their pods are gone, the BatchJob has ended.

Publishing what is finished after a stop is not part of this version; the message says so, and the work objects stay,
so that a BatchJob of the same name and input takes the finished work up.
"""

from datetime import datetime, timedelta

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.duration import format_duration
from batchwright.controller.core import running
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.plan_of_actions import DeleteJob, Wait
from batchwright.controller.core.step import Step

_NOT_PUBLISHED = (
    "Partial results are not published by this version. The finished work is kept under the output: a BatchJob of the"
    " same name, input and output goes on from it."
)


def expires_at(observed: Observed, spec: BatchJobSpec) -> datetime | None:
    """The end of the completion window, from creation; None where it never ends."""
    if spec.completion_window is None:
        return None
    try:
        return observed.identity.created_at + spec.completion_window
    except OverflowError:
        return None


def reason_to_stop(observed: Observed, spec: BatchJobSpec, now: datetime) -> Reason | None:
    """Cancelled or Expired; None while the work may go on. Once all requests have ended there is nothing to stop."""
    if observed.status.fingerprint is not None and running.is_over(observed):
        return None
    if spec.cancel or observed.status.cancelling_at is not None:
        return Reason.CANCELLED
    end = expires_at(observed, spec)
    return Reason.EXPIRED if end is not None and now >= end else None


def step(observed: Observed, spec: BatchJobSpec, reason: Reason) -> Step:
    """Delete the Jobs, wait for their pods, end."""
    facts = running.counted(observed) if observed.status.request_counts else {}
    facts |= {"rate": None, "eta": None, "estimated_completion_time": None}
    cancelled = reason is Reason.CANCELLED
    if observed.jobs or any(not pod.finished for pod in observed.pods):
        return Step(
            phase=Phase.CANCELLING if cancelled else observed.status.phase or Phase.PENDING,
            reason=Reason.CANCELLING if cancelled else Reason.EXPIRING,
            message="Stopping: the workers finish what is in flight.",
            actions=tuple(DeleteJob(job.name, job.uid) for job in observed.jobs if not job.deleting),
            facts=facts,
            wait=Wait(timedelta(seconds=2)),
        )
    if cancelled:
        return Step(Phase.CANCELLED, reason, f"Cancelled. {_NOT_PUBLISHED}", facts=facts)
    assert spec.completion_window is not None
    text = f"Not done within the completion window of {format_duration(spec.completion_window)}. {_NOT_PUBLISHED}"
    return Step(Phase.EXPIRED, reason, text, facts=facts)
