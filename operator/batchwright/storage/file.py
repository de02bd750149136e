"""The object store protocol on a mounted volume: keys are paths under one root folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from pathlib import Path

from batchwright.storage.errors import (
    BucketMissing,
    NotFound,
    ObjectChanged,
    PreconditionFailed,
    SizeMismatch,
    StorageError,
)
from batchwright.storage.file_errors import translated
from batchwright.storage.file_lock import LOCK_SECONDS, lock
from batchwright.storage.file_paths import RootFolder
from batchwright.storage.file_unfinished import UnfinishedFile
from batchwright.storage.file_upload import FileUpload
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import (
    DEFAULT_CHUNK_BYTES,
    DeleteFailure,
    FetchedObject,
    Literal,
    ObjectInfo,
    Piece,
    Progress,
    Upload,
)

logger = logging.getLogger(__name__)

ABANDONED_SECONDS = 15 * 60.0
"""A temporary file to which nothing was written for so long has no writer any more."""


class FileStore:
    """One folder of a volume.

    A write goes to a temporary file in the target's folder, is synced, and takes the target's name in one
    step, so that readers see the old object or the new one. The ETag is made of modification time, size and
    inode.

    - `if_none_match` is exact: a hard link is made, which fails where the name exists. On a file system without
      hard links the file is created exclusively and then filled, so that a reader may see its beginning.
    - `if_match` is exact among writers that name a version, of all machines with the volume, where its file system has
      locks (NFS: with its lock service, or version 4): it compares and renames while it holds one. A write without a
      condition, or a deletion, that comes exactly in between is lost.
    - Nothing outside the folder is ever read, written or removed, even while somebody else swaps folders and symbolic
      links in it: see `file_paths`.
    """

    def __init__(self, root: Path) -> None:
        """root: an absolute path. It is made by the first write when it does not exist."""
        if not root.is_absolute():
            raise ValueError(f"the root folder must be absolute: {root}")
        self._folder = RootFolder(root)

    def uri(self, key: str) -> str:
        return self._folder.uri(key)

    def head(self, key: str) -> ObjectInfo:
        with self._translated("HeadObject", key):
            return _info(key, self._folder.status(key, "HeadObject"))

    def read(self, key: str) -> bytes:
        return self.fetch(key).data

    def fetch(self, key: str) -> FetchedObject:
        with self._translated("GetObject", key), self._folder.open(key, "GetObject") as file:
            return FetchedObject(_info(key, os.fstat(file.fileno())), file.read())

    def stream(
        self,
        key: str,
        *,
        start: int = 0,
        end: int | None = None,
        if_match: str | None = None,
        chunk_size: int = DEFAULT_CHUNK_BYTES,
    ) -> Iterator[bytes]:
        if end is not None and end <= start:
            return
        with self._translated("GetObject", key), self._folder.open(key, "GetObject") as file:
            status = os.fstat(file.fileno())
            expected = if_match or _etag(status)
            stop = status.st_size if end is None else min(end, status.st_size)
            position = start
            while True:
                chunk = os.pread(file.fileno(), max(0, min(chunk_size, stop - position)), position)
                # Asked after the read, so that what was read is known to be of the expected object.
                found = _etag(os.fstat(file.fileno()))
                if found != expected:
                    raise ObjectChanged("GetObject", self.uri(key), f"ETag {found} instead of {expected}")
                if not chunk:
                    return
                position += len(chunk)
                yield chunk

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        if if_none_match and if_match:
            raise ValueError("if_none_match and if_match exclude each other")
        with self._translated("PutObject", key), closing(UnfinishedFile(self._folder, key)) as file:
            file.write(data)
            status = file.finish()
            if if_none_match:
                return _info(key, self._create(key, file))
            if if_match:
                self._replace_version(key, file, if_match)
            else:
                file.replace()
        return _info(key, status)

    def _replace_version(self, key: str, file: UnfinishedFile, etag: str) -> None:
        try:
            standing = self._folder.open(key, "PutObject", writable=True)
        except FileNotFoundError:
            raise self._is_gone(key) from None
        with standing:
            lock(standing, lambda: self._check_etag(key, etag), seconds=LOCK_SECONDS)
            file.replace()

    def _create(self, key: str, file: UnfinishedFile) -> os.stat_result:
        try:
            return file.create()
        except FileExistsError as error:
            raise PreconditionFailed("PutObject", self.uri(key), "the object exists") from error

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        with path.open("rb") as source:
            chunks = iter(lambda: source.read(DEFAULT_CHUNK_BYTES), b"")
            return self._write_chunks(key, chunks, None)

    def open_upload(self, key: str, *, spool: Path) -> Upload:
        def in_our_terms() -> AbstractContextManager[None]:
            return self._translated("PutObject", key)

        with in_our_terms():
            file = UnfinishedFile(self._folder, key)
        return FileUpload(self.uri(key), file, lambda file: self._make(key, file), in_our_terms)

    def _make(self, key: str, file: UnfinishedFile) -> ObjectInfo:
        """Make the object of what was written."""
        status = file.finish()
        if status.st_size != file.size:
            raise SizeMismatch("PutObject", self.uri(key), f"{status.st_size} bytes instead of {file.size}")
        file.replace()
        return _info(key, status)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        with self._translated("ListObjectsV2", prefix):
            self._check_root("ListObjectsV2")
            for key, status in self._folder.walk(prefix, start_after or ""):
                yield _info(key, status)

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        return tuple(failure for key in keys for failure in self._delete(key))

    def join(
        self,
        key: str,
        pieces: Iterable[Piece],
        *,
        progress: Progress | None = None,
        patience: Patience | None = None,
    ) -> ObjectInfo:
        wanted = list(pieces)
        return (patience or Patience()).call(lambda: self._write_chunks(key, self._chunks(wanted), progress))

    def abort_uploads(self, prefix: str, ours: Callable[[str], bool], *, begun_before: datetime | None = None) -> None:
        """What a temporary file was to become isn't known: that nobody has written to it for long says that it may go.
        One that is taken from its writer would fail it for good, other than an upload, which is begun anew.
        """
        abandoned = time.time() - ABANDONED_SECONDS
        if begun_before is not None:
            abandoned = min(abandoned, begun_before.timestamp())
        try:
            with self._translated("AbortMultipartUpload", prefix):
                for name in self._folder.remove_temporaries(prefix, unchanged_since=abandoned):
                    logger.info("removed %s, which a killed writer left under %s", name, self.uri(prefix))
        except StorageError as error:
            logger.warning("temporary files were left behind: %s", error)

    def _chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        for piece in pieces:
            if isinstance(piece, Literal):
                yield piece.data
                continue
            size = 0
            for chunk in self.stream(piece.key, start=piece.start, end=piece.end, if_match=piece.etag):
                size += len(chunk)
                yield chunk
            if size != piece.size:
                detail = f"{size} bytes instead of {piece.size} in [{piece.start}, {piece.end})"
                raise ObjectChanged("GetObject", self.uri(piece.key), detail)

    def _write_chunks(self, key: str, chunks: Iterator[bytes], progress: Progress | None) -> ObjectInfo:
        with self._translated("PutObject", key), closing(UnfinishedFile(self._folder, key)) as file:
            for chunk in chunks:
                file.write(chunk)
                if progress:
                    progress(len(chunk))
            return self._make(key, file)

    @contextmanager
    def _translated(self, operation: str, key: str) -> Iterator[None]:
        """Map errors of the system; a file that is missing because its whole root is missing is told as
        such.
        """
        try:
            with translated(operation, self.uri(key)):
                yield
        except NotFound:
            self._check_root(operation)
            raise

    def _check_root(self, operation: str) -> None:
        if not self._folder.root.is_dir():
            detail = f"there is no folder {self._folder.root}"
            remedy = "Check the path, and that the volume is mounted there (worker.volumes, worker.volumeMounts)."
            raise BucketMissing(operation, self.uri(""), detail, None, remedy)

    def _check_etag(self, key: str, expected: str) -> None:
        try:
            found = _etag(self._folder.status(key, "PutObject"))
        except FileNotFoundError:
            raise self._is_gone(key) from None
        if found != expected:
            raise PreconditionFailed("PutObject", self.uri(key), f"ETag {found} instead of {expected}")

    def _is_gone(self, key: str) -> PreconditionFailed:
        return PreconditionFailed("PutObject", self.uri(key), "the object is gone")

    def _delete(self, key: str) -> Iterator[DeleteFailure]:
        try:
            with translated("DeleteObject", self.uri(key)):
                self._folder.delete(key, "DeleteObject")
        except NotFound:
            return
        except StorageError as error:
            yield DeleteFailure(key, str(error), error.permission, error.retryable)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, _etag(status))
