"""What the pods of a stage said at their end."""

from dataclasses import dataclass
from typing import TypeVar

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, Report
from batchwright.controller.core.observed import JobView, Observed, PodView

R = TypeVar("R", bound=Report)

_SIGKILL = 137
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
    """How the last pod that failed ended, whether it reported or not; None where no pod is left to tell."""
    failed = [pod for pod in observed.pods_of(job) if pod.phase == "Failed" or _exit_code(pod) not in (None, 0)]
    for pod in reversed(failed):
        if pod.termination is None or pod.termination.exit_code == ExitCode.INTERRUPTED:
            continue
        if isinstance(pod.termination.report, FailureReport):
            report = pod.termination.report
            return Failure(report.reason, report.message, report)
        return Failure(_REASONS.get(pod.termination.exit_code, otherwise), _without_report(pod))
    return None


def failure_of_exit_code(job: JobView) -> Failure | None:
    """What a Job that failed by an exit code tells about itself, once its pods are gone."""
    if job.end is None or job.end.succeeded or job.end.reason != "PodFailurePolicy":
        return None
    for code, reason in _REASONS.items():
        if f"exit code {int(code)} " in f"{job.end.message} ":
            return Failure(reason, f"{job.end.message}; the pod with its own message is gone")
    return None


def _exit_code(pod: PodView) -> int | None:
    return pod.termination.exit_code if pod.termination else None


def _without_report(pod: PodView) -> str:
    assert pod.termination is not None
    code, reason = pod.termination.exit_code, pod.termination.reason
    if reason == "OOMKilled":
        return f"pod {pod.name} needed more memory than its limit: raise spec.worker.resources.limits.memory"
    killed = " (killed)" if code == _SIGKILL else ""
    return f"pod {pod.name} ended with exit code {code}{killed} and no report: see `kubectl logs {pod.name}`"
