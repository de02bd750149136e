"""Jobs that get nowhere and that the spec no longer asks for: a person has mended the image, a Secret's name, a limit.

The template of a Job can't be changed, so such a Job is deleted, and made anew once it is gone. One whose pods run
stays as it is: what was changed in the spec reaches the next one.
"""

from dataclasses import replace

from batchwright.api.batchjob import BatchJobSpec
from batchwright.controller.core import blockers, jobs
from batchwright.controller.core.observed import JobView, Observed, Stage
from batchwright.controller.core.plan_of_actions import Manifest
from batchwright.controller.settings import Settings


def outdated(observed: Observed, spec: BatchJobSpec, settings: Settings) -> tuple[JobView, ...]:
    """The Jobs to be made anew."""
    return tuple(
        job
        for job in observed.jobs
        if (blockers.not_starting(observed, job) is not None or blockers.gets_nowhere(observed, job))
        and jobs.replaces(_manifest(observed, spec, settings, job), job)
    )


def without(observed: Observed, deleted: tuple[JobView, ...]) -> Observed:
    """What will be seen once the deletion of these Jobs has begun."""
    uids = {job.uid for job in deleted}
    views = tuple(replace(job, deleting=job.deleting or job.uid in uids) for job in observed.jobs)
    return replace(observed, jobs=views)


def _manifest(observed: Observed, spec: BatchJobSpec, settings: Settings, job: JobView) -> Manifest:
    identity, fingerprint = observed.identity, observed.status.fingerprint or ""
    match job.stage:
        case Stage.PLAN:
            return jobs.plan_job(identity, spec, settings, job.attempt)
        case Stage.RUN:
            return jobs.run_job(identity, spec, settings, fingerprint=fingerprint, run=job.run, workers=job.completions)
        case Stage.MERGE:
            return jobs.merge_job(
                identity,
                spec,
                settings,
                fingerprint=fingerprint,
                run=job.run,
                attempt=job.attempt,
                undone=job.undone,
                began=observed.status.in_progress_at,
            )
