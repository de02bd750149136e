"""What can go wrong in a store, in terms that a condition can show: what was tried, where, why not, and what
to do.

    StorageError
    ├── InvalidLocation       a URI or key that cannot be one
    ├── NotFound              the object does not exist
    ├── BucketMissing         the bucket or root folder does not exist
    ├── AccessDenied          the credentials are good, the permission is missing
    ├── MissingCredentials    none were found
    ├── InvalidCredentials    unknown, expired or wrongly signed
    │   └── CredentialsRevoked    they were accepted before: a Secret is being rotated        (retryable)
    ├── PreconditionFailed    a conditional write lost (412)
    ├── ObjectChanged         the object is not the one that was first read
    ├── NotSupported          the store does not know the operation
    ├── Misconfigured         region, addressing, signature, TLS or endpoint do not fit the store
    ├── SizeMismatch          what was written has not the size that it must have      (retryable)
    ├── EndpointUnreachable   no connection to the store                              (retryable)
    └── StorageUnavailable    the store answers with 5xx, throttles or cuts            (retryable)
        └── UploadMissing     somebody has aborted the upload: it must begin anew

Messages carry no credentials: only what the store itself says in its error, and our own words.
"""

# ruff: noqa: N818 (the names say what happened; all are StorageErrors)

from __future__ import annotations

from typing import ClassVar


class StorageError(Exception):
    """The root of all. `str()` is one line that is good enough for a condition's message.

    operation: the API call, e.g. "GetObject" (on volumes the same names, so that messages read alike)
    uri: the literal URI that it was about
    detail: what the store or the system said
    permission: the permission that the operation needs, e.g. "s3:GetObject"; None where there is none
    remedy: what a person can do, as a sentence; may be empty
    """

    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without anybody doing anything. The store has already retried
    by itself.
    """

    summary: ClassVar[str] = "the storage operation failed"

    def __init__(
        self, operation: str, uri: str, detail: str = "", permission: str | None = None, remedy: str = ""
    ) -> None:
        # All fields go to Exception.args, so that the error survives pickling between processes.
        super().__init__(operation, uri, detail, permission, remedy)
        self.operation = operation
        self.uri = uri
        self.detail = detail
        self.permission = permission
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.operation} {self.uri}: {self.describe()}"
        if self.detail:
            text += f" ({self.detail})"
        return f"{text}. {self.remedy}" if self.remedy else text

    def describe(self) -> str:
        """The kind of error in a few words."""
        return self.summary


class InvalidLocation(StorageError, ValueError):
    summary = "not a usable location"


class NotFound(StorageError):
    summary = "the object does not exist"


class BucketMissing(StorageError):
    summary = "the bucket does not exist"


class AccessDenied(StorageError):
    summary = "access denied"

    def describe(self) -> str:
        return f"{self.summary}: needs {self.permission}" if self.permission else self.summary


class MissingCredentials(StorageError):
    summary = "no credentials found"


class InvalidCredentials(StorageError):
    summary = "the credentials are not accepted"


class CredentialsRevoked(InvalidCredentials):
    """Retryable for as long as the new keys of a rotated Secret may be on their way (see `rotation`). Later refusals
    are plain InvalidCredentials.
    """

    summary = "the credentials are no longer accepted"
    retryable = True


class PreconditionFailed(StorageError):
    """A conditional write lost. It may have lost against an earlier attempt of one's own (see
    `ObjectStore.write`).
    """

    summary = "another writer was first"


class ObjectChanged(StorageError):
    summary = "the object has changed since it was first read"


class NotSupported(StorageError):
    summary = "the store does not support this operation"


class Misconfigured(StorageError):
    summary = "the storage settings do not fit the store"


class SizeMismatch(StorageError):
    summary = "the object has not the size that was written"
    retryable = True


class EndpointUnreachable(StorageError):
    """Retryable, because it heals by itself when the store comes back; a wrong address does not, so bound the
    wait.
    """

    summary = "the storage endpoint cannot be reached"
    retryable = True


class StorageUnavailable(StorageError):
    summary = "the store is not available"
    retryable = True


class UploadMissing(StorageUnavailable):
    """Retryable as a whole: no part of the upload can be sent any more."""

    summary = "the upload was aborted"
