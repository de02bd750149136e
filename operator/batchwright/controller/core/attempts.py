"""A Job that ended without a word: its pods are gone, or what they said can't be read. Every stage may run again."""

from batchwright.api.conditions import Reason
from batchwright.controller.core import reports
from batchwright.controller.core.observed import JobView, Observed
from batchwright.controller.core.reports import Failure

MAX_ATTEMPTS = 3


def verdict(observed: Observed, job: JobView, reason: Reason) -> Failure | None:
    """Why a Job that ended without its report means failure; None where the stage is to run once more."""
    assert job.end is not None
    if not job.end.succeeded:
        failure = reports.last_failure(observed, job, reason) or reports.failure_of_exit_code(job)
        if failure is not None:
            return failure
    if job.attempt < MAX_ATTEMPTS:
        return None
    detail = f": {job.end.message}" if job.end.message else ""
    return Failure(
        reason,
        f"Job {job.name} ended {MAX_ATTEMPTS} times without a report that can be read{detail}. Are the operator and"
        " the worker image of the same version, and do the worker's pods stay until they are read?",
    )
