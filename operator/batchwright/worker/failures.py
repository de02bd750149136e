"""From an exception to what the operator is told: reason, message, exit code."""

from typing import Final

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport
from batchwright.batchfile.plan_record import RecordError
from batchwright.storage import errors as storage

MAX_MESSAGE: Final = 1500


class StageFailed(Exception):  # noqa: N818 - it says what happened
    """A stage ends here, with a report for the operator."""

    def __init__(self, code: ExitCode, report: FailureReport) -> None:
        super().__init__(report.message)
        self.code = code
        self.report = report


class Interrupted(BaseException):
    """SIGTERM. No Exception, so that nothing on the way takes it for an error and tries again."""


def final(code: ExitCode, reason: Reason, message: str) -> StageFailed:
    """A failure that no other attempt can mend."""
    return StageFailed(code, FailureReport(reason=reason, message=message[:MAX_MESSAGE], final=True))


def passing(reason: Reason, message: str) -> StageFailed:
    """A failure that may be over when the Job controller tries again."""
    report = FailureReport(reason=reason, message=message[:MAX_MESSAGE], final=False)
    return StageFailed(ExitCode.UNEXPECTED, report)


_REFUSED: Final[tuple[tuple[type[storage.StorageError], ExitCode, Reason], ...]] = (
    (storage.ObjectChanged, ExitCode.INPUT_CHANGED, Reason.INPUT_CHANGED),
    (storage.BucketMissing, ExitCode.STORAGE_REFUSED, Reason.BUCKET_NOT_FOUND),
    (storage.NotFound, ExitCode.PLAN_UNREADABLE, Reason.PLAN_UNREADABLE),
    (storage.AccessDenied, ExitCode.STORAGE_REFUSED, Reason.STORAGE_ACCESS_DENIED),
    (storage.MissingCredentials, ExitCode.STORAGE_REFUSED, Reason.STORAGE_CREDENTIALS_INVALID),
    (storage.InvalidCredentials, ExitCode.STORAGE_REFUSED, Reason.STORAGE_CREDENTIALS_INVALID),
    (storage.InvalidLocation, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
    (storage.Misconfigured, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
    (storage.NotSupported, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
)


def failure_of(error: BaseException) -> StageFailed:
    """The failure that an exception means. What is not foreseen counts as passing: a bug may need just a new pod."""
    if isinstance(error, StageFailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        return _most_telling([failure_of(one) for one in error.exceptions])
    if isinstance(error, RecordError):
        return final(ExitCode.PLAN_UNREADABLE, Reason.PLAN_UNREADABLE, str(error))
    if isinstance(error, storage.StorageError):
        return _storage_failure(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return passing(Reason.UNEXPECTED, f"{place}{error.strerror or error}. The worker's log has the details.")
    return passing(Reason.UNEXPECTED, f"{type(error).__name__}: the worker's log has the details")


def _storage_failure(error: storage.StorageError) -> StageFailed:
    for kind, code, reason in _REFUSED:
        if isinstance(error, kind):
            return final(code, reason, str(error))
    if error.retryable:
        return passing(Reason.STORAGE_UNREACHABLE, str(error))
    if isinstance(error, storage.PreconditionFailed):
        return passing(Reason.UNEXPECTED, str(error))
    return final(ExitCode.STORAGE_REFUSED, Reason.STORAGE_ACCESS_DENIED, str(error))


def _most_telling(failures: list[StageFailed]) -> StageFailed:
    """A final failure before one that may pass, and a known reason before none: the others mostly follow from it."""
    return min(failures, key=lambda one: (not one.report.final, one.report.reason is Reason.UNEXPECTED))
