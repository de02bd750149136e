"""The merge stage: results are published, or missing shards are sent back to the run."""

from datetime import datetime

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import MergeReport, ShardsMissingReport
from batchwright.controller.core import attempts, blockers, completion, jobs, reports, running
from batchwright.controller.core.blockers import Blocker
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import Action, CreateJob, Wait
from batchwright.controller.core.progress import format_bytes
from batchwright.controller.core.reports import Failure
from batchwright.controller.core.step import Advance, Step, failed
from batchwright.controller.settings import Settings

MAX_REPAIRS = 3


def step(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step | Advance:
    """Start the merge, wait for it, read its totals."""
    job = observed.job(Stage.MERGE, running.number(observed))
    verdict = _verdict(observed, job, now) if job is not None else None
    if verdict is not None:
        return verdict
    if job is not None and job.end is None:
        return _merging(observed, job, now, settings, ())
    if spec.suspend:
        message = "Suspended before the results are merged."
        return Step(Phase.FINALIZING, Reason.SUSPENDED, message, facts=_facts(observed))
    create = _create(observed, spec, settings, job.attempt + 1 if job is not None else 1)
    return _merging(observed, None, now, settings, (create,))


def _verdict(observed: Observed, job: JobView, now: datetime) -> Step | Advance | None:
    """What the merge found; None while it works, or where it is to run once more."""
    merged = reports.latest(observed, job, MergeReport)
    if merged is not None:
        return completion.completed(observed, merged, now)
    missing = reports.latest(observed, job, ShardsMissingReport)
    if missing is not None:
        return _repair(observed, missing)
    failure = reports.final_failure(observed, job)
    if failure is None and job.end is not None:
        failure = attempts.verdict(observed, job, Reason.MERGE_FAILED)
        failure = _as_merge_failure(failure) if failure is not None else None
    return failed(failure) if failure is not None else None


def _facts(observed: Observed) -> dict[str, object]:
    return {"run": running.number(observed), "rate": None, "eta": None, "estimated_completion_time": None}


def _create(observed: Observed, spec: BatchJobSpec, settings: Settings, attempt: int) -> Action:
    assert observed.status.fingerprint is not None
    return CreateJob(
        jobs.merge_job(
            observed.identity,
            spec,
            settings,
            fingerprint=observed.status.fingerprint,
            run=running.number(observed),
            attempt=attempt,
        )
    )


def _repair(observed: Observed, missing: ShardsMissingReport) -> Step | Advance:
    run = running.number(observed)
    shards = observed.status.shards.total if observed.status.shards else 0
    job = observed.job(Stage.RUN, run)
    last = reports.last_failure(observed, job, Reason.RUN_FAILED) if job else None
    detail = f" The last failure: {last.message}" if last else ""
    if missing.count >= shards:
        # Nothing was ever committed: what stops every worker would stop those of a repair too.
        return failed(Failure(Reason.RUN_FAILED, f"No worker finished a shard.{detail}"))
    if run > MAX_REPAIRS:
        text = f"{missing.count} shards ({missing.shards}) are not done after {MAX_REPAIRS} repairs.{detail}"
        return failed(Failure(Reason.SHARDS_MISSING, text))
    return Advance({"run": run + 1, "finalizing_at": None})


def _as_merge_failure(failure: Failure) -> Failure:
    return Failure(Reason.MERGE_FAILED, f"The results could not be published: {failure.message}", failure.report)


def _merging(
    observed: Observed, job: JobView | None, now: datetime, settings: Settings, actions: tuple[Action, ...]
) -> Step:
    blocker = blockers.refused(observed) or (blockers.not_starting(observed, job) if job else None)
    failure = reports.last_failure(observed, job, Reason.MERGE_FAILED) if job else None
    started = any(pod.started for pod in observed.pods_of(job)) if job else False
    if blocker is not None:
        message = blocker.message
    elif failure is not None:
        message = f"Merging the results again after: {failure.message}"
    elif started:
        message = _progress(observed)
    else:
        message = "Waiting for the pod that merges the results."
    return Step(
        phase=Phase.FINALIZING,
        reason=Reason.MERGING if started else Reason.WAITING_FOR_MERGE,
        message=message,
        actions=actions,
        facts=_facts(observed),
        blocker=blocker,
        wait=_wait(started, blocker, now, settings),
    )


def _progress(observed: Observed) -> str:
    merging = observed.merging
    if merging is None or merging.run != running.number(observed):
        return "Merging the results."
    text = f"Merging: {format_bytes(merging.bytes_joined, merging.bytes_total)}" if merging.bytes_total else "Merging"
    return f"{text}. {merging.message.rstrip('.')}." if merging.message else f"{text}."


def _wait(started: bool, blocker: Blocker | None, now: datetime, settings: Settings) -> Wait:
    return Wait(settings.poll_interval, refresh=False) if started else Wait(blockers.next_look(blocker, now, settings))
