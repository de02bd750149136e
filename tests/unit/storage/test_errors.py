import pickle

import pytest

from batchwright.storage import errors
from batchwright.storage.errors import StorageError

KINDS = [
    errors.InvalidLocation,
    errors.NotFound,
    errors.BucketMissing,
    errors.AccessDenied,
    errors.MissingCredentials,
    errors.InvalidCredentials,
    errors.CredentialsRevoked,
    errors.PreconditionFailed,
    errors.ObjectChanged,
    errors.NotSupported,
    errors.Misconfigured,
    errors.SizeMismatch,
    errors.EndpointUnreachable,
    errors.StorageUnavailable,
]


def test_a_message_has_operation_place_kind_reason_and_remedy() -> None:
    error = errors.AccessDenied("GetObject", "s3://b/k", "AccessDenied: no", "s3:GetObject", "Grant it.")
    assert str(error) == "GetObject s3://b/k: access denied: needs s3:GetObject (AccessDenied: no). Grant it."


def test_a_message_without_details_is_still_a_sentence() -> None:
    assert str(errors.NotFound("GetObject", "s3://b/k")) == "GetObject s3://b/k: the object does not exist"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling_between_processes(kind: type[StorageError]) -> None:
    error = kind("GetObject", "s3://b/k", "detail", "s3:GetObject", "Remedy.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.permission, copy.remedy) == (error.permission, error.remedy)


def test_only_what_can_heal_by_itself_is_retryable() -> None:
    retryable = {kind for kind in KINDS if kind.retryable}
    assert retryable == {
        errors.CredentialsRevoked,
        errors.SizeMismatch,
        errors.EndpointUnreachable,
        errors.StorageUnavailable,
    }
