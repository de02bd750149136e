"""What every object store can do, and the values that go in and out.

All methods are synchronous; one store may be used by several threads at once. Every method raises the errors
of `batchwright.storage.errors` and nothing of the library underneath. Keys are literal (nothing is
percent-encoded or decoded) and relative to the bucket (s3) or the root folder (file).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchwright.storage.patience import Patience

DEFAULT_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as the store knows it. `etag` is opaque and without its quotes; `size` is in bytes."""

    key: str
    size: int
    etag: str
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class FetchedObject:
    """A small object's bytes together with the ETag that they belong to (for a later write with
    `if_match`).
    """

    info: ObjectInfo
    data: bytes


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A key that could not be deleted, and why, in words for a log or a condition. `permission` is set when
    refused, `retryable` when the store may do it later.
    """

    key: str
    reason: str
    permission: str | None = None
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """The bytes [start, end) of an object of the same store. With `etag`, another version is an
    `ObjectChanged`.
    """

    key: str
    start: int
    end: int
    etag: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a byte range: [{self.start}, {self.end}) of {self.key!r}")

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes of the caller's own, between the ranges of objects."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


Piece = ObjectRange | Literal
"""What `ObjectStore.join` puts together."""

Progress = Callable[[int], None]
"""Called with the number of bytes that were added since the last call, in the thread of the caller."""


class Upload(Protocol):
    """An object that is written piece by piece. Nothing of it is visible before `commit`.

    May be used by several threads, one of which works at a time while the others wait. Any error ends the upload as
    `abort` does, and so must the caller when it gives up.
    """

    def add(self, data: bytes) -> None:
        """Append the bytes. They may wait in a file, and a part may be sent, until this returns.

        Raises what `ObjectStore.write` raises, StorageUnavailable when the spool folder cannot be written, and
        ValueError when the upload is over.
        """
        ...

    def commit(self) -> ObjectInfo:
        """Make the object of what was added, in place of what stood at the key. Again: the same answer.

        Raises as `add` does, SizeMismatch when the object that came to be is another one, and UploadMissing when
        somebody has removed what was written so far.
        """
        ...

    def abort(self) -> None:
        """Drop what was added. Does nothing once the upload is over. A refusal is logged, not raised."""
        ...


class ObjectStore(Protocol):
    """One bucket, or one folder of a mounted volume."""

    def uri(self, key: str) -> str:
        """The literal URI of a key, as it stands in a BatchJob: `s3://bucket/key` or `file:///root/key`."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Size and ETag of an object.

        Raises NotFound, BucketMissing, AccessDenied. A missing object on S3 without s3:ListBucket is an
        AccessDenied, because S3 answers 403 for both; the remedy says so.
        """
        ...

    def read(self, key: str) -> bytes:
        """A small object as a whole. Raises as `head` does."""
        ...

    def fetch(self, key: str) -> FetchedObject:
        """A small object as a whole, with its ETag. Raises as `head` does."""
        ...

    def stream(
        self,
        key: str,
        *,
        start: int = 0,
        end: int | None = None,
        if_match: str | None = None,
        chunk_size: int = DEFAULT_CHUNK_BYTES,
    ) -> Iterator[bytes]:
        """The bytes [start, end) in chunks of `chunk_size` (the last one shorter), cut at the object's size.

        A read that is cut or stalls is taken up again by range, a bounded number of times without progress,
        always against the ETag of the first answer; so the consumer may pause for as long as it wants.
        Nothing is requested before the first `next()`.

        Raises ObjectChanged when the object is not (or no longer) the one of `if_match` or of the first
        answer, else as `head` does, and StorageUnavailable or EndpointUnreachable when the retries are used
        up.
        """
        ...

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        """Write an object as a whole; readers see the old one or the new one, never a part.

        `if_none_match`: only when the key does not exist. `if_match`: only when its ETag is still this one.
        Raises PreconditionFailed (412). A conflict of two writers (409) is retried here. **A
        PreconditionFailed can be one's own earlier success**: when an answer gets lost, the request is sent
        again and meets its own object. Callers that need to know must read the object and compare an id of
        theirs in it.
        """
        ...

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        """Write an object from a local file, in parts when it is large. The file must not change
        meanwhile.
        """
        ...

    def open_upload(self, key: str, *, spool: Path) -> Upload:
        """Begin an object whose bytes come one after the other.

        spool: a folder for what waits to be sent, up to the size of one part: 8 MiB, more only beyond 8 GB. Memory is
        less than 1 MiB, also while a part is sent. (A volume takes the bytes at once and needs no spool.)

        Raises InvalidLocation and, from the spool folder, StorageUnavailable. A store may be asked only later.
        """
        ...

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Every object whose key starts with the prefix, in the order of the keys' UTF-8 bytes.

        start_after: only keys that come after this one in that order; it need not exist

        A page of S3 (1,000 keys) or a folder is asked for when its turn comes, so that whoever needs the first keys
        alone need not wait for all.
        """
        ...

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """Delete objects; one that does not exist counts as deleted. What is refused or fails is reported,
        not raised.
        """
        ...

    def join(
        self,
        key: str,
        pieces: Iterable[Piece],
        *,
        progress: Progress | None = None,
        patience: Patience | None = None,
    ) -> ObjectInfo:
        """Write one object that is the concatenation of the pieces, copied within the store where that is
        possible.

        `patience`: a part that fails because the store is away is tried again, and what was joined before it
        stays. Without it the first failure ends the join.

        The size is verified afterwards (SizeMismatch). On any error nothing is left at the key but what stood
        there before, and the unfinished upload is aborted; a refused abort is logged. Memory is about two
        parts (16 MiB; more only beyond 80 GB, because an upload has at most 10,000 parts). It can be run
        again at any time.
        """
        ...

    def abort_uploads(self, prefix: str, ours: Callable[[str], bool], *, begun_before: datetime | None = None) -> None:
        """Remove what writers that were killed left of objects under the prefix: unfinished uploads, temporary files.

        `ours` says of an object's key whether its upload may be removed. It is called where no other writer of these
        objects can be of use any more, or with `begun_before` (with a time zone), which keeps uploads that were begun
        later. Of a temporary file neither its object nor its begin is known: it goes when nothing was written to it
        since that time, and for 15 minutes at least. What can't be removed is logged: a lifecycle rule gets it.
        """
        ...
