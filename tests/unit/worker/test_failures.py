"""What the operator is told for each exception, and whether another attempt makes sense."""

import errno

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import FINAL_EXIT_CODES, ExitCode
from batchwright.batchfile.plan_record import RecordError
from batchwright.storage import errors as storage
from batchwright.worker.failures import MAX_MESSAGE, failure_of, final, passing

WHERE = ("PutObject", "s3://bucket/key", "detail", "s3:PutObject", "Do this.")

TABLE: list[tuple[type[storage.StorageError], ExitCode, Reason]] = [
    (storage.AccessDenied, ExitCode.STORAGE_REFUSED, Reason.STORAGE_ACCESS_DENIED),
    (storage.BucketMissing, ExitCode.STORAGE_REFUSED, Reason.BUCKET_NOT_FOUND),
    (storage.MissingCredentials, ExitCode.STORAGE_REFUSED, Reason.STORAGE_CREDENTIALS_INVALID),
    (storage.InvalidCredentials, ExitCode.STORAGE_REFUSED, Reason.STORAGE_CREDENTIALS_INVALID),
    (storage.StorageError, ExitCode.STORAGE_REFUSED, Reason.STORAGE_ACCESS_DENIED),
    (storage.NotFound, ExitCode.PLAN_UNREADABLE, Reason.PLAN_UNREADABLE),
    (storage.ObjectChanged, ExitCode.INPUT_CHANGED, Reason.INPUT_CHANGED),
    (storage.InvalidLocation, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
    (storage.Misconfigured, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
    (storage.NotSupported, ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC),
    (storage.EndpointUnreachable, ExitCode.UNEXPECTED, Reason.STORAGE_UNREACHABLE),
    (storage.StorageUnavailable, ExitCode.UNEXPECTED, Reason.STORAGE_UNREACHABLE),
    (storage.SizeMismatch, ExitCode.UNEXPECTED, Reason.STORAGE_UNREACHABLE),
    (storage.PreconditionFailed, ExitCode.UNEXPECTED, Reason.UNEXPECTED),
]


@pytest.mark.parametrize(("kind", "code", "reason"), TABLE)
def test_a_storage_error_has_its_reason_and_says_where_and_what_to_do(
    kind: type[storage.StorageError], code: ExitCode, reason: Reason
) -> None:
    failure = failure_of(kind(*WHERE))
    assert (failure.code, failure.report.reason) == (code, reason)
    assert failure.report.final == (code in FINAL_EXIT_CODES)
    assert "s3://bucket/key" in failure.report.message
    assert "Do this." in failure.report.message


def test_every_storage_error_stands_in_the_table() -> None:
    assert {kind for kind, _, _ in TABLE} == {storage.StorageError, *storage.StorageError.__subclasses__()}


def test_keys_that_did_not_come_back_are_invalid_ones() -> None:
    failure = failure_of(storage.CredentialsRevoked(*WHERE))
    assert (failure.report.reason, failure.report.final) == (Reason.STORAGE_CREDENTIALS_INVALID, True)


def test_what_heals_by_itself_is_never_final() -> None:
    assert all(failure_of(kind(*WHERE)).report.final != kind.retryable or not kind.retryable for kind, _, _ in TABLE)


def test_an_unreadable_record_is_final() -> None:
    failure = failure_of(RecordError("PlanRecord of version 2"))
    assert (failure.code, failure.report.reason) == (ExitCode.PLAN_UNREADABLE, Reason.PLAN_UNREADABLE)
    assert failure.report.message == "PlanRecord of version 2"


def test_a_stage_that_failed_stays_as_it_is() -> None:
    failure = final(ExitCode.SERVER_REFUSED, Reason.SERVER_UNAUTHORIZED, "wrong key")
    assert failure_of(failure) is failure


def test_an_error_of_the_system_names_the_place_and_the_cause() -> None:
    failure = failure_of(OSError(errno.ENOSPC, "No space left on device", "/var/spool/batchwright/0/finished"))
    assert failure.code == ExitCode.UNEXPECTED
    assert not failure.report.final
    assert failure.report.message.startswith("/var/spool/batchwright/0/finished: No space left on device.")


def test_an_unforeseen_error_counts_as_passing_and_its_text_stays_in_the_log() -> None:
    failure = failure_of(ZeroDivisionError("prompt: secret"))
    assert (failure.code, failure.report.final) == (ExitCode.UNEXPECTED, False)
    assert failure.report.reason is Reason.UNEXPECTED
    assert "ZeroDivisionError" in failure.report.message
    assert "secret" not in failure.report.message


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_failures_the_one_that_a_person_must_mend_is_told(turned: bool) -> None:
    errors: list[Exception] = [
        ZeroDivisionError(),
        storage.StorageUnavailable(*WHERE),
        storage.AccessDenied(*WHERE),
    ]
    group = ExceptionGroup("all", [ExceptionGroup("some", errors[::-1] if turned else errors)])
    assert failure_of(group).report.reason is Reason.STORAGE_ACCESS_DENIED


def test_a_long_message_is_cut() -> None:
    assert len(passing(Reason.UNEXPECTED, "x" * 5000).report.message) == MAX_MESSAGE
