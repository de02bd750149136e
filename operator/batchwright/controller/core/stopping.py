"""A stop, whoever asked for it: the workers end and flush, then a merge closes the batch with what is finished.

workers stop ──▶ FailureTarget ──▶ closing merge ──▶ cancelled, expired, failed
     └─ no plan: no request was sent ──▶ the same, with nothing published

Nothing but the closing merge sends the end of a stop: it publishes what is finished and gives every other request an
error line. Where it can't, the stop ends all the same, within a bounded time, and the finished work is kept.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from batchwright.api import defaults
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import TERMINAL_PHASES, ConditionType, Phase
from batchwright.api.duration import format_duration
from batchwright.controller.core import (
    blockers,
    completion,
    conditions,
    merging,
    running,
    stops,
    stray_pods,
    validating,
)
from batchwright.controller.core.merging import Due, Failed, Missing, Published, Working
from batchwright.controller.core.observed import JobView, Observed, PodView, Stage
from batchwright.controller.core.plan_of_actions import DeleteJob, Wait
from batchwright.controller.core.step import Advance, Step
from batchwright.controller.core.stops import Stop
from batchwright.controller.settings import Settings

_PACE = timedelta(seconds=2)


def step(
    observed: Observed, spec: BatchJobSpec, stop: Stop, now: datetime, settings: Settings, *, unusable: str = ""
) -> Step | Advance:
    """Stop the workers, close the batch, end. `unusable` says why no Job can be made from the spec."""
    if observed.status.fingerprint is None:
        # A plan that has just ended is taken over: there may be finished work of an earlier BatchJob under it.
        return validating.planned(observed) or _unplanned(observed, spec, stop, now)
    merge = merging.look(observed)
    facts = _facts(observed, stop, now)
    match merge:
        case Published(report):
            closed = completion.stopped(observed.with_facts(facts), stop, report, now)
        case Failed(failure):
            closed = completion.unpublished(stop, failure.message)
        case Working():
            closed = _waiting(merging.waiting(observed, merge, now, settings), stop)
        case Missing(next_attempt=attempt) | Due(attempt):
            closed = _close(observed, spec, stop, attempt, now=now, settings=settings, unusable=unusable)
        case _:
            assert_never(merge)
    if closed.phase not in TERMINAL_PHASES and stops.targeted(observed) is not None:
        closed = replace(closed, failure_target=stop.why)  # a cancel that came later makes it its own
    return replace(closed, actions=(*closed.actions, *_deletions(observed)), facts={**facts, **closed.facts})


def _unplanned(observed: Observed, spec: BatchJobSpec, stop: Stop, now: datetime) -> Step:
    """No request was sent: nothing is to be published."""
    if _others(observed) or _pods(observed, now):
        phase = stop.phase if stop.phase is Phase.CANCELLING else observed.status.phase or Phase.PENDING
        return replace(_ending(observed, spec, stop, now), phase=phase, actions=_deletions(observed))
    return Step(stop.end, stop.why.reason, f"{stop.why.message} No request was sent, and nothing is published.")


def _close(
    observed: Observed,
    spec: BatchJobSpec,
    stop: Stop,
    attempt: int,
    *,
    now: datetime,
    settings: Settings,
    unusable: str,
) -> Step:
    """Create the closing merge, once the workers are gone."""
    if _others(observed) or _pods(observed, now):
        return _ending(observed, spec, stop, now)
    refused = blockers.refused(observed)
    target = conditions.find(observed.status, ConditionType.FAILURE_TARGET)
    if unusable:
        return completion.unpublished(stop, unusable)
    if refused is not None and target is not None and now >= target.last_transition_time + settings.merge_deadline:
        return completion.unpublished(stop, refused.message)
    waiting = replace(_waiting(merging.waiting(observed, Due(attempt), now, settings), stop), failure_target=stop.why)
    if stops.targeted(observed) is None:
        # First it is written down what this ends as: the merge is not to be undone, and its Job may vanish unseen.
        return replace(waiting, wait=Wait(timedelta(0)))
    return replace(waiting, actions=(merging.creation(observed, spec, settings, attempt, stop.undone),))


def _waiting(waiting: Step, stop: Stop) -> Step:
    return replace(waiting, phase=stop.phase, reason=stop.reason, message=f"{stop.cause} {waiting.message}")


def _ending(observed: Observed, spec: BatchJobSpec, stop: Stop, now: datetime) -> Step:
    workers = sum(pod.stage is Stage.RUN for pod in _pods(observed, now))
    grace = format_duration(defaults.grace_period(spec))
    named = f"{workers} workers have" if workers > 1 else "The worker has"
    text = f"{named} at most {grace} for what is in flight." if workers else "Waiting for the pods to end."
    blocker = blockers.refused(observed)
    text = blocker.message if blocker is not None else text
    return Step(stop.phase, stop.reason, f"{stop.cause} {text}", blocker=blocker, wait=Wait(_PACE))


def _facts(observed: Observed, stop: Stop, now: datetime) -> dict[str, Any]:
    """Counts as the workers left them, no rate, and the times that passed unseen."""
    status = observed.status
    facts: dict[str, Any] = {"run": running.number(observed)} | running.counted(observed)
    facts |= {"rate": None, "eta": None, "estimated_completion_time": None}
    began = facts["in_progress_at"] = status.in_progress_at or _began(observed)
    facts["validating_at"] = status.validating_at or began or now
    if stop.phase is Phase.FINALIZING:
        facts["finalizing_at"] = status.finalizing_at or now
    return facts


def _began(observed: Observed) -> datetime | None:
    """When the first run Job was created, though by an operator that knew of no stop yet."""
    times = [job.created_at for job in observed.jobs if job.stage is Stage.RUN]
    stopped = observed.status.finalizing_at or observed.status.cancelling_at
    return min([*times, *([stopped] if stopped else [])]) if times else None


def _others(observed: Observed) -> tuple[JobView, ...]:
    """Jobs that would start more pods, but for the merge of the current run."""
    merge = merging.current(observed)
    return tuple(job for job in observed.jobs if job.end is None and (merge is None or job.uid != merge.uid))


def _deletions(observed: Observed) -> tuple[DeleteJob, ...]:
    return tuple(DeleteJob(job.name, job.uid) for job in _others(observed) if not job.deleting)


def _pods(observed: Observed, now: datetime) -> tuple[PodView, ...]:
    """Pods that are waited for."""
    merge = merging.current(observed)
    return stray_pods.awaited((pod for pod in observed.pods if merge is None or pod.job_uid != merge.uid), now)
