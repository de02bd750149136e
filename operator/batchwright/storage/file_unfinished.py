"""A file of a volume that is being written: nobody sees it before it is whole."""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from typing import IO

from batchwright.storage.errors import UploadMissing
from batchwright.storage.file_paths import TEMPORARY_PREFIX, RootFolder
from batchwright.storage.protocol import DEFAULT_CHUNK_BYTES

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How file systems say that they have no hard links."""


class UnfinishedFile:
    """A temporary file in its target's folder, which takes the target's name in one step.

    Raises OSError and what `RootFolder.create` raises; UploadMissing when somebody has removed it.
    """

    def __init__(self, root: RootFolder, key: str) -> None:
        self._uri = root.uri(key)
        self._target = key.rpartition("/")[2]
        self._name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        self._folder, self._file = root.create(key, "PutObject", self._name)
        self._removed = False
        self.size = 0
        """Bytes that were written."""

    def write(self, data: bytes) -> None:
        """Append the bytes."""
        _write_all(self._file, data)
        self.size += len(data)

    def finish(self) -> os.stat_result:
        """Bring it to disk, and give it the time that its ETag is made of."""
        return _finish(self._file)

    def replace(self) -> None:
        """Take the target's name, from whatever has it."""
        try:
            self._folder.rename(self._name, self._target)
        except FileNotFoundError as error:
            raise UploadMissing("PutObject", self._uri, "the temporary file is gone") from error
        self._removed = True
        self._folder.sync()

    def create(self) -> os.stat_result:
        """Take the target's name, or raise FileExistsError. Gives the status of what has the name now."""
        try:
            self._folder.link(self._name, self._target)
            status = os.fstat(self._file.fileno())
        except FileNotFoundError as error:
            raise UploadMissing("PutObject", self._uri, "the temporary file is gone") from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            status = self._copy()
        self._folder.sync()
        return status

    def _copy(self) -> os.stat_result:
        with self._folder.create(self._target) as copy:
            try:
                self._file.seek(0)
                while chunk := self._file.read(DEFAULT_CHUNK_BYTES):
                    _write_all(copy, chunk)
                return _finish(copy)
            except BaseException:
                self._folder.unlink(self._target)
                raise

    def close(self) -> None:
        """Remove it, unless it has taken the target's name. Raises nothing."""
        with suppress(OSError):
            if not self._removed:
                self._folder.unlink(self._name)
        self._file.close()
        self._folder.close()


def _write_all(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _finish(file: IO[bytes]) -> os.stat_result:
    # The clock of many file systems ticks in milliseconds only.
    now = time.time_ns()
    os.utime(file.fileno(), ns=(now, now))
    os.fsync(file.fileno())
    return os.fstat(file.fileno())
