"""The object store protocol on a mounted volume: keys are paths under one root folder."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from batchwright.storage.errors import (
    BucketMissing,
    NotFound,
    ObjectChanged,
    PreconditionFailed,
    SizeMismatch,
    StorageError,
)
from batchwright.storage.file_errors import translated
from batchwright.storage.file_paths import TEMPORARY_PREFIX, RootFolder
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

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How file systems say that they have no hard links."""

MAX_PRUNE_RACES = 50
ABANDONED_SECONDS = 15 * 60.0
"""A temporary file to which nothing was written for so long has no writer any more."""


class FileStore:
    """One folder of a volume.

    A write goes to a temporary file in the target's folder, is synced, and takes the target's name in one
    step, so that readers see the old object or the new one. The ETag is made of modification time, size and
    inode.

    - `if_none_match` is exact: a hard link is made, which fails where the name exists. On a file system
    without hard
      links the file is created exclusively and then filled, so that a reader may see its beginning.
    - `if_match` compares and then renames; a writer that comes exactly in between is overwritten.
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
            _, status = self._folder.existing(key, "HeadObject")
        return _info(key, status)

    def read(self, key: str) -> bytes:
        return self.fetch(key).data

    def fetch(self, key: str) -> FetchedObject:
        with self._translated("GetObject", key), self._opened(key) as file:
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
        with self._translated("GetObject", key), self._opened(key) as file:
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
        with self._translated("PutObject", key), self._temporary(key) as (temporary, target, file):
            _write_all(file, data)
            status = _finish(file)
            if if_none_match:
                return _info(key, self._create(key, temporary, target, status))
            if if_match:
                self._check_etag(key, target, if_match)
            temporary.replace(target)
            _sync_folder(target.parent)
        return _info(key, status)

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        with path.open("rb") as source:
            chunks = iter(lambda: source.read(DEFAULT_CHUNK_BYTES), b"")
            return self._write_chunks(key, chunks, None)

    def open_upload(self, key: str, *, spool: Path) -> Upload:
        def publish(file: IO[bytes], temporary: Path, target: Path) -> ObjectInfo:
            status = _finish(file)
            temporary.replace(target)
            _sync_folder(target.parent)
            return _info(key, status)

        return FileUpload(self.uri(key), self._temporary(key), publish, lambda: self._translated("PutObject", key))

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
                for path in self._folder.temporaries(prefix, unchanged_since=abandoned):
                    path.unlink(missing_ok=True)
                    logger.info("removed %s, which a killed writer left", path)
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
        size = 0
        with self._translated("PutObject", key), self._temporary(key) as (temporary, target, file):
            for chunk in chunks:
                _write_all(file, chunk)
                size += len(chunk)
                if progress:
                    progress(len(chunk))
            status = _finish(file)
            if status.st_size != size:
                raise SizeMismatch("PutObject", self.uri(key), f"{status.st_size} bytes instead of {size}")
            temporary.replace(target)
            _sync_folder(target.parent)
        return _info(key, status)

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

    @contextmanager
    def _opened(self, key: str) -> Iterator[IO[bytes]]:
        path, _ = self._folder.existing(key, "GetObject")
        with path.open("rb", buffering=0) as file:
            yield file

    @contextmanager
    def _temporary(self, key: str) -> Iterator[tuple[Path, Path, IO[bytes]]]:
        """A new file beside the target, which is gone at the end unless it was renamed."""
        target = self._folder.writable(key, "PutObject")
        temporary = target.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            with _create_in_folder(temporary) as file:
                yield temporary, target, file
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _create(self, key: str, temporary: Path, target: Path, status: os.stat_result) -> os.stat_result:
        """Give the temporary file the target's name, unless that exists."""
        try:
            try:
                os.link(temporary, target)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                status = _create_exclusively(target, temporary)
        except FileExistsError as error:
            raise PreconditionFailed("PutObject", self.uri(key), "the object exists") from error
        _sync_folder(target.parent)
        return status

    def _check_etag(self, key: str, target: Path, expected: str) -> None:
        try:
            found = _etag(target.stat())
        except FileNotFoundError:
            raise PreconditionFailed("PutObject", self.uri(key), "the object is gone") from None
        if found != expected:
            raise PreconditionFailed("PutObject", self.uri(key), f"ETag {found} instead of {expected}")

    def _delete(self, key: str) -> Iterator[DeleteFailure]:
        try:
            with translated("DeleteObject", self.uri(key)):
                path = self._folder.writable(key, "DeleteObject")
                path.unlink()
        except NotFound:
            return
        except StorageError as error:
            yield DeleteFailure(key, str(error), error.permission, error.retryable)
            return
        self._prune(path.parent)

    def _prune(self, folder: Path) -> None:
        """Remove folders that have become empty: in an object store there are none."""
        root = Path(os.path.realpath(self._folder.root))
        with suppress(OSError):  # the first one that is not empty
            while folder != root:
                folder.rmdir()
                folder = folder.parent


def _create_in_folder(path: Path) -> IO[bytes]:
    """Create the file, and its folders before. A folder may be pruned as empty in between; then once more."""
    for _ in range(MAX_PRUNE_RACES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("xb", buffering=0)
        except FileNotFoundError:
            continue
        except FileExistsError:
            # mkdir says so too of a folder that somebody else made and pruned at the same moment.
            if any(part.is_file() for part in (path, *path.parents)):
                raise
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _create_exclusively(target: Path, source: Path) -> os.stat_result:
    with target.open("xb", buffering=0) as file:
        try:
            _write_all(file, source.read_bytes())
            return _finish(file)
        except BaseException:
            target.unlink()
            raise


def _write_all(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _finish(file: IO[bytes]) -> os.stat_result:
    """Give the file a time of its own (the clock of many file systems ticks in milliseconds) and bring it to
    disk.
    """
    now = time.time_ns()
    os.utime(file.fileno(), ns=(now, now))
    os.fsync(file.fileno())
    return os.fstat(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, _etag(status))
