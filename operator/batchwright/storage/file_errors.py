"""What the operating system raises, as the errors of this package."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from batchwright.storage import errors
from batchwright.storage.errors import StorageError

_KINDS: dict[int, type[StorageError]] = {
    errno.ENOENT: errors.NotFound,
    errno.EISDIR: errors.NotFound,
    errno.ENOTDIR: errors.NotFound,
    errno.EACCES: errors.AccessDenied,
    errno.EPERM: errors.AccessDenied,
    errno.EROFS: errors.AccessDenied,
    errno.ENAMETOOLONG: errors.InvalidLocation,
    errno.EINVAL: errors.InvalidLocation,
    errno.EILSEQ: errors.InvalidLocation,
}

_REMEDIES: dict[int, str] = {
    errno.ENOENT: "Check the path, and that the volume is mounted there (worker.volumes, worker.volumeMounts).",
    errno.EISDIR: "The path is a folder; name a file.",
    errno.ENOTDIR: "A part of the path that has to be a folder is a file.",
    errno.EEXIST: "A part of the path that has to be a folder is a file.",
    errno.EROFS: "The volume is mounted read-only.",
    errno.ENAMETOOLONG: "Use a shorter name.",
    errno.ENOSPC: "The volume is full; free space or enlarge it.",
    errno.EDQUOT: "The quota of the volume is used up; free space or raise it.",
}

WRITES = frozenset({"PutObject", "DeleteObject"})


@contextmanager
def translated(operation: str, uri: str) -> Iterator[None]:
    """Whatever OSError is raised inside comes out as a StorageError."""
    try:
        yield
    except OSError as error:
        raise translate(error, operation, uri) from error


def translate(error: OSError, operation: str, uri: str) -> StorageError:
    """The StorageError for an OSError. What may heal by itself (I/O errors, stale handles) is
    StorageUnavailable.
    """
    number = error.errno or 0
    kind = _KINDS.get(number, errors.StorageUnavailable)
    if operation == "PutObject" and number in (errno.ENOTDIR, errno.EEXIST):
        kind = errors.InvalidLocation
    detail = error.strerror or str(error)
    if kind is errors.AccessDenied:
        permission = "write" if operation in WRITES else "read"
        remedy = _REMEDIES.get(number) or (
            f"Let the worker's user {permission} there (fsGroup of the pod, or the folder's owner and mode)."
        )
        return kind(operation, uri, detail, permission, remedy)
    return kind(operation, uri, detail, None, _REMEDIES.get(number, ""))
