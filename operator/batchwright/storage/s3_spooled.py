"""Writing one S3 object of which the bytes come one after the other, without keeping them in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from batchwright.storage.errors import StorageUnavailable
from batchwright.storage.join_plan import STREAM_PART_BYTES
from batchwright.storage.piecewise import PiecewiseUpload
from batchwright.storage.protocol import ObjectInfo
from batchwright.storage.s3_errors import translated
from batchwright.storage.s3_multipart import Multipart, Target

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

    from batchwright.storage.s3_client import S3Clients

PARTS_OF_A_SIZE = 1000
"""After so many parts their size doubles: the first 8 GB are in parts of 8 MiB, and 10,000 parts are more than the
5 TiB that an object can have, none of them above 4 GiB.
"""


def part_bytes(number: int) -> int:
    """How large the part of that number (from 1) is, unless it is the last one."""
    return STREAM_PART_BYTES << ((number - 1) // PARTS_OF_A_SIZE)


class SpooledUpload(PiecewiseUpload):
    """A part waits in a file that has no name, so that a killed process leaves none behind.

    The multipart upload begins with the second part: what fits one is written by one plain PUT.
    """

    def __init__(self, clients: S3Clients, target: Target, spool: Path, verified: Callable[[int], ObjectInfo]) -> None:
        """verified: the object as it stands once it is written, checked to be of so many bytes."""
        super().__init__(target.uri)
        self._clients = clients
        self._target = target
        self._spool = spool
        self._verified = verified
        self._multipart: Multipart | None = None
        self._parts: list[CompletedPartTypeDef] = []
        self._waiting = 0
        self._size = 0
        with self._spooling():
            self._file: IO[bytes] = tempfile.TemporaryFile(buffering=0, dir=spool)  # noqa: SIM115 (open until the end)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            room = part_bytes(len(self._parts) + 1) - self._waiting
            if not room:
                self._send()
                continue
            with self._spooling():
                added = self._file.write(rest[:room])
            rest = rest[added:]
            self._waiting += added
            self._size += added

    def _publish(self) -> ObjectInfo:
        if self._multipart is None:
            # A file is announced with `Expect: 100-continue`, which makes no sense where nothing follows.
            body = self._rewound() if self._waiting else b""
            with translated("PutObject", self._uri):
                self._clients.default.put_object(**self._target.names, Body=body, **self._target.encryption)
        else:
            self._send()
            self._multipart.complete(self._parts)
        return self._verified(self._size)

    def _discard(self) -> None:
        if self._multipart is not None:
            self._multipart.abort()
        self._file.close()

    def _send(self) -> None:
        """Send what waits as the next part; it is never empty."""
        if self._multipart is None:
            self._multipart = Multipart.begin(self._clients, self._target)
        self._parts.append(self._multipart.send(len(self._parts) + 1, self._rewound()))
        with self._spooling():
            self._file.seek(0)
            self._file.truncate()
        self._waiting = 0

    def _rewound(self) -> IO[bytes]:
        self._file.seek(0)
        return self._file

    @contextmanager
    def _spooling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            detail = f"the spool folder {self._spool}: {error.strerror or error}"
            remedy = "Give the process a folder that it can write to, with room for its uploads."
            raise StorageUnavailable("PutObject", self._uri, detail, None, remedy) from error
