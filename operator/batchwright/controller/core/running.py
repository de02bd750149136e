"""The run stage: the workers of one Indexed Job. A repair is another Job with the next number."""

from datetime import datetime, timedelta

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.conditions import Phase, Reason
from batchwright.controller.core import blockers, counts, jobs, progress, reports, reused, stray_pods
from batchwright.controller.core.blockers import ServerState
from batchwright.controller.core.observed import JobView, Observed, PodView, Stage
from batchwright.controller.core.plan_of_actions import Action, CreateJob, DeleteJob, SuspendJob, Wait
from batchwright.controller.core.reports import Failure
from batchwright.controller.core.step import Step
from batchwright.controller.settings import Settings

_WORD_HOLDS = timedelta(minutes=5)
"""How long what a worker said of the server counts when it can't be asked again."""


def number(observed: Observed) -> int:
    """The number of the current run Job, from 1."""
    return observed.status.run or 1


def is_over(observed: Observed) -> bool:
    """Whether the workers are done. A merge that exists proves it, even where the run Job has been deleted since."""
    run = number(observed)
    job = observed.job(Stage.RUN, run)
    return observed.job(Stage.MERGE, run) is not None or (job is not None and job.end is not None)


def failure(observed: Observed) -> Failure | None:
    """Why the run is over for good: a worker met what no retry can mend. Failed indexes alone are for the merge."""
    run = number(observed)
    job = observed.job(Stage.RUN, run)
    if observed.job(Stage.MERGE, run) is not None or job is None or job.end is None or job.end.succeeded:
        return None
    return reports.final_failure(observed, job) or reports.failure_of_exit_code(job)


def step(observed: Observed, spec: BatchJobSpec, now: datetime, settings: Settings) -> Step:
    """Start the workers, follow their progress."""
    run = number(observed)
    job = observed.job(Stage.RUN, run)
    workers = job.completions if job else jobs.workers(spec, shards_to_do(observed))
    # A run that goes on after all, a repair or a window that was extended in time, is not over yet.
    facts = {"run": run, "parallelism": workers, "finalizing_at": None} | counted(observed)
    pods = observed.pods_of(job) if job else ()
    leaving = _leaving(observed, run, now) if job is None else ()
    server = _server(observed, pods, run, now)
    unstarted = blockers.refused(observed) or (blockers.not_starting(observed, job) if job else None)
    blocker = unstarted or blockers.server_refuses(server)
    suspended = bool(spec.suspend)
    return Step(
        phase=Phase.IN_PROGRESS,
        reason=Reason.SUSPENDED if suspended else Reason.REPAIRING if run > 1 else Reason.RUNNING,
        message=_message(observed, job, blocker, suspended=suspended, workers=workers, run=run, leaving=len(leaving)),
        actions=(*(() if leaving else _actions(observed, spec, settings, job, workers)), *_stale_merges(observed, run)),
        facts=facts,
        blocker=None if suspended else blocker,
        server=server,
        wait=_wait(pods, unstarted, now, settings),
    )


def counted(observed: Observed) -> dict[str, object]:
    """Counts, rate and time left as the workers report them."""
    run = number(observed)
    found = counts.facts(observed.status, observed.progress, run)
    return found | progress.facts(observed.with_facts(found).status, observed.samples)


def shards_to_do(observed: Observed) -> int:
    """Shards that are to be worked on: those that stand from an earlier BatchJob are none of them."""
    shards, reused = observed.status.shards, observed.status.reused
    return (shards.total if shards else 1) - (reused.shards if reused else 0)


def _leaving(observed: Observed, run: int, now: datetime) -> tuple[PodView, ...]:
    """Pods of a Job that was deleted. Until they have ended, an index would have two, each with the other's shards."""
    return stray_pods.awaited((pod for pod in observed.pods if pod.stage is Stage.RUN and pod.run == run), now)


def _actions(
    observed: Observed, spec: BatchJobSpec, settings: Settings, job: JobView | None, workers: int
) -> tuple[Action, ...]:
    if job is None:
        if spec.suspend:
            return ()
        assert observed.status.fingerprint is not None
        manifest = jobs.run_job(
            observed.identity,
            spec,
            settings,
            fingerprint=observed.status.fingerprint,
            run=number(observed),
            workers=workers,
        )
        return (CreateJob(manifest),)
    return pause_or_resume(job, spec)


def pause_or_resume(job: JobView, spec: BatchJobSpec) -> tuple[Action, ...]:
    """Bring a run Job to where `spec.suspend` wants it."""
    if job.deleting or job.end is not None:
        return ()
    if spec.suspend and not job.suspended:
        # Kueue would resume a suspended Job whose Workload is admitted. Deleting it gives the quota back, and the
        # work goes on from its segments with a Job made anew.
        return (DeleteJob(job.name, job.uid),) if job.queue_name else (SuspendJob(job.name, job.uid, suspended=True),)
    if not spec.suspend and job.suspended and job.suspended_by_us:
        return (SuspendJob(job.name, job.uid, suspended=False),)
    return ()


def _stale_merges(observed: Observed, run: int) -> tuple[Action, ...]:
    """A merge that found shards missing would only try again and again while they are being repaired."""
    return tuple(
        DeleteJob(job.name, job.uid)
        for job in observed.jobs
        if job.stage is Stage.MERGE and job.run < run and job.end is None and not job.deleting
    )


def _message(
    observed: Observed,
    job: JobView | None,
    blocker: blockers.Blocker | None,
    *,
    suspended: bool,
    workers: int,
    run: int,
    leaving: int,
) -> str:
    if suspended:
        return "Suspended: workers finish what is in flight and keep what is done."
    if blocker is not None:
        return blocker.message
    if leaving:
        return f"The run's Job was deleted; it is made anew once its pods have ended ({leaving} left)."
    if held := blockers.held(job):
        return held
    text = f"Repairing missing shards, run {run}" if run > 1 else "Running"
    text = f"{text} with {workers} worker{'s' if workers > 1 else ''}."
    last = reports.last_failure(observed, job, Reason.RUN_FAILED) if job else None
    text = f"{text} A worker failed and is started again: {last.message}" if last else text
    return " ".join(filter(None, [text, reused.sentence(observed.status)]))


def _server(observed: Observed, pods: tuple[PodView, ...], run: int, now: datetime) -> ServerState | None:
    """What the running workers say; away when all that were heard lately say so.

    What was said before a pod began is its predecessor's word.
    """
    begun = {
        pod.index: pod.started_at or now
        for pod in pods
        if pod.phase == "Running" and pod.delete_by is None and pod.termination is None
    }
    reports = [
        heard.report
        for heard in observed.heard
        if heard.report.run == run
        and heard.report.index in begun
        and heard.at >= max(begun[heard.report.index], now - _WORD_HOLDS)
    ]
    if not reports:
        return None
    away = [report for report in reports if not report.server_available]
    if len(away) < len(reports):
        return ServerState(True)
    first = min(away, key=lambda report: report.server_since or now)
    return ServerState(False, first.server_message, first.server_reason or Reason.SERVER_AWAY, first.server_since)


def _wait(pods: tuple[PodView, ...], blocker: blockers.Blocker | None, now: datetime, settings: Settings) -> Wait:
    if blocker is None and any(pod.started for pod in pods):
        return Wait(settings.poll_interval, refresh=False)
    return Wait(blockers.next_look(blocker, now, settings))
