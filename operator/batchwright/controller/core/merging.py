"""The merge Job, whether it publishes a finished run or closes one that was stopped: what it found, and how it gets on.

Attempts count on over both kinds: a merge of one kind may follow one of the other, and a Job is never changed.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import MergeReport, ShardsMissingReport
from batchwright.api.undone import Undone
from batchwright.controller.core import attempts, blockers, jobs, reports, running
from batchwright.controller.core.blockers import Blocker
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import CreateJob, Wait
from batchwright.controller.core.progress import format_bytes
from batchwright.controller.core.reports import Failure
from batchwright.controller.core.step import Step
from batchwright.controller.settings import Settings

_TOO_LATE = "DeadlineExceeded"
"""What the Job controller says of a Job that ran into its activeDeadlineSeconds."""


@dataclass(frozen=True, slots=True)
class Published:
    """Everything is published. `at` is the end of the pod that reported it."""

    report: MergeReport
    at: datetime


@dataclass(frozen=True, slots=True)
class Missing:
    """Shards have no record."""

    report: ShardsMissingReport
    next_attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing can be published, whatever is tried."""

    failure: Failure
    reported: bool = False
    """Whether the merge itself said that no retry can mend it."""


@dataclass(frozen=True, slots=True)
class Working:
    """The Job has yet to end."""

    job: JobView


@dataclass(frozen=True, slots=True)
class Due:
    """A Job is to be created."""

    attempt: int


Merge = Published | Missing | Failed | Working | Due


def look(observed: Observed) -> Merge:
    """How the merge of the current run stands."""
    job = current(observed)
    if job is None:
        return Due(1)
    for pod in reversed(observed.pods_of(job)):
        if pod.termination is not None and isinstance(pod.termination.report, MergeReport):
            return Published(pod.termination.report, pod.termination.at)
    missing = reports.latest(observed, job, ShardsMissingReport)
    if missing is not None:
        return _missing(job, missing)
    failure = reports.final_failure(observed, job)
    if failure is not None:
        return Failed(failure, reported=True)
    return Working(job) if job.end is None else _ended(observed, job)


def current(observed: Observed) -> JobView | None:
    """The latest attempt at the merge of the current run."""
    return observed.job(Stage.MERGE, running.number(observed))


def creation(
    observed: Observed, spec: BatchJobSpec, settings: Settings, attempt: int, undone: Undone | None = None
) -> CreateJob:
    """The next Job."""
    assert observed.status.fingerprint is not None
    return CreateJob(
        jobs.merge_job(
            observed.identity,
            spec,
            settings,
            fingerprint=observed.status.fingerprint,
            run=running.number(observed),
            attempt=attempt,
            undone=undone,
            began=observed.status.in_progress_at,
        )
    )


def waiting(observed: Observed, merge: Working | Due, now: datetime, settings: Settings) -> Step:
    """The step while a merge is to start, or works."""
    match merge:
        case Working(found):
            job: JobView | None = found
            started = any(pod.started for pod in observed.pods_of(found))
            blocker = blockers.refused(observed) or blockers.not_starting(observed, found)
        case Due():
            job, started, blocker = None, False, blockers.refused(observed)
        case _:
            assert_never(merge)
    return Step(
        phase=Phase.FINALIZING,
        reason=Reason.MERGING if started else Reason.WAITING_FOR_MERGE,
        message=_message(observed, job, blocker, started=started),
        blocker=blocker,
        wait=_wait(blocker, now, settings, started=started),
    )


def _missing(job: JobView, missing: ShardsMissingReport) -> Merge:
    if job.undone is None:
        return Missing(missing, job.attempt + 1)
    # A closing merge makes up for them. One that doesn't is of another version, or was answered with stale listings.
    if job.attempt < attempts.MAX_ATTEMPTS:
        return Due(job.attempt + 1)
    text = f"{missing.count} shards ({missing.shards}) have no record although the merge was to finish them"
    return Failed(Failure(Reason.MERGE_FAILED, text))


def _ended(observed: Observed, job: JobView) -> Merge:
    assert job.end is not None
    if job.end.reason == _TOO_LATE:
        text = f"Job {job.name} was not done within the operator's BATCHWRIGHT_MERGE_DEADLINE"
        return Failed(Failure(Reason.MERGE_FAILED, text))
    failure = attempts.verdict(observed, job, Reason.MERGE_FAILED)
    return Failed(failure) if failure is not None else Due(job.attempt + 1)


def _message(observed: Observed, job: JobView | None, blocker: Blocker | None, *, started: bool) -> str:
    failure = reports.last_failure(observed, job, Reason.MERGE_FAILED) if job else None
    if blocker is not None:
        return blocker.message
    if held := blockers.held(job):
        return held
    if failure is not None:
        return f"Merging the results again after: {failure.message}"
    return _progress(observed) if started else "Waiting for the pod that merges the results."


def _progress(observed: Observed) -> str:
    merging = observed.merging
    if merging is None or merging.run != running.number(observed):
        return "Merging the results."
    text = f"Merging: {format_bytes(merging.bytes_joined, merging.bytes_total)}" if merging.bytes_total else "Merging"
    return f"{text}. {merging.message.rstrip('.')}." if merging.message else f"{text}."


def _wait(blocker: Blocker | None, now: datetime, settings: Settings, *, started: bool) -> Wait:
    return Wait(settings.poll_interval, refresh=False) if started else Wait(blockers.next_look(blocker, now, settings))
