"""The plan stage: the input is checked and split. Pending until its pod runs, validating from then on."""

from datetime import datetime, timedelta

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import PlanReport
from batchwright.api.status import RequestCounts, ShardCounts
from batchwright.controller.core import attempts, blockers, jobs, reports
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import Action, CreateJob, Wait
from batchwright.controller.core.step import Advance, ServerState, Step, failed
from batchwright.controller.settings import Settings


def step(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step | Advance:
    """Start the plan, wait for it, read its verdict."""
    job = observed.job(Stage.PLAN, 0)
    verdict = _verdict(observed, job) if job is not None else None
    if verdict is not None:
        return verdict
    if job is not None and job.end is None:
        return _waiting(observed, job, now, settings, ())
    if spec.suspend:
        phase = Phase.PENDING if observed.status.validating_at is None else Phase.VALIDATING
        return Step(phase, Reason.SUSPENDED, "Suspended before the input is checked.")
    attempt = job.attempt + 1 if job is not None else 1
    create = CreateJob(jobs.plan_job(observed.identity, spec, settings, attempt))
    return _waiting(observed, None, now, settings, (create,))


def _verdict(observed: Observed, job: JobView) -> Step | Advance | None:
    """What the plan found; None while it works, or where it is to run once more."""
    report = reports.latest(observed, job, PlanReport)
    if report is not None:
        return Advance(_facts(report))
    failure = reports.final_failure(observed, job)
    if failure is None and job.end is not None:
        failure = attempts.verdict(observed, job, Reason.PLAN_FAILED)
    return failed(failure) if failure is not None else None


def _facts(report: PlanReport) -> dict[str, object]:
    return {
        "fingerprint": report.fingerprint,
        "plan_uri": report.plan_uri or None,
        "endpoint": report.endpoint,
        "model": report.model,
        "request_counts": RequestCounts(total=report.lines),
        "shards": ShardCounts(total=report.shards),
        "run": 1,
    }


def _waiting(
    observed: Observed,
    job: JobView | None,
    now: datetime,
    settings: Settings,
    actions: tuple[Action, ...],
) -> Step:
    pods = observed.pods_of(job) if job else ()
    started = observed.status.validating_at is not None or any(pod.started for pod in pods)
    blocker = blockers.refused(observed) or (blockers.not_starting(observed, job) if job else None)
    failure = reports.last_failure(observed, job, Reason.PLAN_FAILED) if job else None
    server = ServerState(False, failure.message) if failure and failure.reason is Reason.SERVER_UNREACHABLE else None
    if blocker is not None:
        message = blocker.message
    elif failure is not None:
        message = f"Checking the input again after: {failure.message}"
    elif started:
        message = "Checking the input."
    else:
        message = "Waiting for the pod that checks the input."
    idle = timedelta(seconds=15) if started and blocker is None else blockers.next_look(blocker, now, settings)
    return Step(
        phase=Phase.VALIDATING if started else Phase.PENDING,
        reason=Reason.VALIDATING if started else Reason.PENDING,
        message=message,
        actions=actions,
        blocker=blocker,
        server=server,
        wait=Wait(idle),
    )
