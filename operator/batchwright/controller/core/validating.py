"""The plan stage: the input is checked and split. Pending until its pod runs, validating from then on.

A model server may take an hour to load, so a plan that found nobody there is made anew until somebody answers: only the
completion window, or a person, ends that. The Job that failed is deleted first, so that none pile up.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import PlanReport
from batchwright.api.status import RequestCounts, Reused, ShardCounts
from batchwright.controller.core import attempts, blockers, conditions, jobs, reports
from batchwright.controller.core.blockers import ServerState
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import Action, CreateJob, DeleteJob, Wait
from batchwright.controller.core.step import Advance, Step, failed
from batchwright.controller.settings import Settings

_SERVER_PACE = timedelta(minutes=1)
"""How long after a plan's last try another one asks a server that is away. Each asks for half a minute itself."""
_SUSPENDED = "Suspended before the input is checked."


def step(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step | Advance:
    """Start the plan, wait for it, read its verdict."""
    job = observed.job(Stage.PLAN, 0)
    if job is not None and _server_was_away(observed, job):
        return _again(observed, spec, job, now, settings)
    verdict = _verdict(observed, job) if job is not None else None
    if verdict is not None:
        return verdict
    if job is not None and job.end is None:
        return _waiting(observed, job, now, settings, ())
    if spec.suspend:
        phase = Phase.PENDING if observed.status.validating_at is None else Phase.VALIDATING
        return Step(phase, Reason.SUSPENDED, _SUSPENDED)
    attempt = job.attempt + 1 if job is not None else 1
    create = CreateJob(jobs.plan_job(observed.identity, spec, settings, attempt))
    return _waiting(observed, None, now, settings, (create,))


def planned(observed: Observed) -> Advance | None:
    """The plan, where its report is there."""
    job = observed.job(Stage.PLAN, 0)
    report = reports.latest(observed, job, PlanReport) if job is not None else None
    return Advance(_facts(report)) if report is not None else None


def failure(observed: Observed) -> Step | None:
    """The end, where the plan failed for good."""
    job = observed.job(Stage.PLAN, 0)
    if job is None or _server_was_away(observed, job):
        return None
    verdict = _verdict(observed, job)
    return verdict if isinstance(verdict, Step) else None


def _server_was_away(observed: Observed, job: JobView) -> bool:
    """Whether a plan Job has used up its tries on a server that is away."""
    if job.end is None or job.end.succeeded:
        return False
    if reports.latest(observed, job, PlanReport) is not None or reports.final_failure(observed, job) is not None:
        return False
    failure = reports.last_failure(observed, job, Reason.PLAN_FAILED)
    return failure is not None and failure.reason is Reason.SERVER_UNREACHABLE


def _again(observed: Observed, spec: BatchJobSpec, job: JobView, now: datetime, settings: Settings) -> Step:
    """Delete the Job that failed, a while after its end; without it, the plan is made anew."""
    assert job.end is not None
    if spec.suspend:
        return Step(Phase.VALIDATING, Reason.SUSPENDED, _SUSPENDED)
    due = job.end.at + _SERVER_PACE
    delete = now >= due and not job.deleting
    waiting = _waiting(observed, job, now, settings, (DeleteJob(job.name, job.uid),) if delete else ())
    left = due - now if now < due else blockers.next_look(None, now, settings)
    return replace(waiting, wait=Wait(left))


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
    reused = report.reused or Reused()
    return {
        "fingerprint": report.fingerprint,
        "plan_uri": report.plan_uri or None,
        "endpoint": report.endpoint,
        "model": report.model,
        "request_counts": RequestCounts(total=report.lines, completed=reused.completed, failed=reused.failed),
        "shards": ShardCounts(total=report.shards, completed=reused.shards),
        "reused": report.reused,
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
    elif held := blockers.held(job):
        message = held
    elif failure is not None:
        message = f"Checking the input again after: {failure.message}"
    elif _is_known_away(observed):
        message = "Checking the input again, since the model server was away."
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


def _is_known_away(observed: Observed) -> bool:
    known = conditions.find(observed.status, ConditionType.SERVER_AVAILABLE)
    return known is not None and known.status == "False"
