"""What the pods of a stage said at their end."""

from dataclasses import dataclass
from typing import TypeVar

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, Report
from batchwright.controller.core import endings
from batchwright.controller.core.observed import JobView, Observed, PodView

R = TypeVar("R", bound=Report)

_REASONS: dict[int, Reason] = {
    ExitCode.INPUT_INVALID: Reason.INVALID_INPUT,
    ExitCode.STORAGE_REFUSED: Reason.STORAGE_ACCESS_DENIED,
    ExitCode.INPUT_CHANGED: Reason.INPUT_CHANGED,
    ExitCode.PLAN_UNREADABLE: Reason.PLAN_UNREADABLE,
    ExitCode.CONFIGURATION_INVALID: Reason.INVALID_SPEC,
    ExitCode.SERVER_REFUSED: Reason.SERVER_UNAUTHORIZED,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a stage failed."""

    reason: Reason
    message: str
    report: FailureReport | None = None
    disruption: bool = False
    """Whether Kubernetes ended the pod for reasons of its own, and another one follows at no cost."""


def latest(observed: Observed, job: JobView, kind: type[R]) -> R | None:
    """The latest report of a kind from the pods of a Job."""
    found = None
    for pod in observed.pods_of(job):
        if pod.termination and isinstance(pod.termination.report, kind):
            found = pod.termination.report
    return found


def final_failure(observed: Observed, job: JobView) -> Failure | None:
    """A failure that no retry can mend, as a pod reported it."""
    for pod in observed.pods_of(job):
        report = pod.termination.report if pod.termination else None
        if isinstance(report, FailureReport) and report.final:
            return Failure(report.reason, report.message, report)
    return None


def last_failure(observed: Observed, job: JobView, otherwise: Reason) -> Failure | None:
    """How the last pod that failed ended, whether it reported or not; None where no pod is left to tell.

    While the Job goes on, a pod that was evicted or preempted is told of too. Once it has failed, it didn't for that:
    what counts are the others.
    """
    pods = observed.pods_of(job)
    found = [failure for pod in pods if (failure := _of_pod(observed, pod, otherwise)) is not None]
    counted = [failure for failure in found if not failure.disruption]
    candidates = (counted or found) if job.end is not None else found
    return candidates[-1] if candidates else None


def cannot_start(pod: PodView) -> bool:
    """Whether the image of a pod can't be run at all."""
    return pod.termination is not None and endings.cannot_start(pod.termination)


def failure_of_exit_code(job: JobView) -> Failure | None:
    """What a Job that failed by an exit code tells about itself, once its pods are gone."""
    if job.end is None or job.end.succeeded or job.end.reason != "PodFailurePolicy":
        return None
    for code, reason in _REASONS.items():
        if f"exit code {int(code)} " in f"{job.end.message} ":
            return Failure(reason, f"{job.end.message}; the pod with its own message is gone")
    return None


def _of_pod(observed: Observed, pod: PodView, otherwise: Reason) -> Failure | None:
    """How one pod failed; None where it didn't, or was told to leave and nobody knows why."""
    termination = pod.termination
    if termination is not None and isinstance(termination.report, FailureReport):
        return Failure(termination.report.reason, termination.report.message, termination.report)
    if pod.disruption is not None and (termination is None or termination.exit_code != 0):
        return Failure(otherwise, endings.of_disrupted_pod(pod, pod.disruption), disruption=True)
    if termination is None or termination.exit_code in (0, ExitCode.INTERRUPTED):
        return None
    reason = _REASONS.get(termination.exit_code, otherwise)
    return Failure(reason, endings.of_container(observed, pod, termination))
