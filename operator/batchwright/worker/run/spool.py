"""Finished lines of an open shard on the worker's own disk, so that memory doesn't grow with a shard.

Lines come in the order in which they finish, and leave in input order.
"""

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from batchwright.batchfile.shard_record import ERRORS, RESULTS, RETRY

COPY_BYTES: Final = 1 << 20
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One of a shard's files, in input order."""

    path: Path
    bytes: int
    lines: int


class _OrderedLines:
    """Where the line of each position lies in a file; -1 where there is none."""

    def __init__(self, positions: int) -> None:
        self._offsets = array("q", [_NOWHERE]) * positions
        self._lengths = array("q", [0]) * positions

    def put(self, position: int, offset: int, length: int) -> None:
        self._offsets[position], self._lengths[position] = offset, length

    def ranges(self) -> Iterator[tuple[int, int]]:
        return ((o, n) for o, n in zip(self._offsets, self._lengths, strict=True) if o != _NOWHERE)


class Spool:
    """Files of one open shard under `folder`. Used by one thread at a time."""

    def __init__(self, folder: Path, positions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._finished = (folder / "finished").open("w+b")
        self._retry = (folder / "retry-unordered").open("w+b")
        self._finished_size = 0
        self._retry_size = 0
        self._lines = {kind: _OrderedLines(positions) for kind in (RESULTS, ERRORS, RETRY)}

    def append(self, line: bytes) -> tuple[int, int]:
        """Keep a finished line; gives its place, for `place`."""
        place = self._finished_size, len(line) + 1
        self._finished.write(line + b"\n")
        self._finished_size += len(line) + 1
        return place

    def place(self, position: int, place: tuple[int, int], *, succeeded: bool) -> None:
        """Say which request of the shard a kept line belongs to; positions count from 0."""
        self._lines[RESULTS if succeeded else ERRORS].put(position, *place)

    def append_retry(self, position: int, line: bytes) -> None:
        """Keep the input line of a request that failed."""
        self._retry.write(line + b"\n")
        self._lines[RETRY].put(position, self._retry_size, len(line) + 1)
        self._retry_size += len(line) + 1

    @property
    def size(self) -> int:
        """Bytes of all finished lines so far."""
        return self._finished_size

    def read(self, start: int, end: int) -> bytes:
        """The finished lines in a range of bytes, in the order in which they finished."""
        self._finished.flush()
        return os.pread(self._finished.fileno(), end - start, start)

    def ordered(self, kind: str) -> SpooledFile | None:
        """Write one of the shard's files in input order; None where it would be empty."""
        source = self._retry if kind == RETRY else self._finished
        source.flush()
        path = self._folder / kind
        size = lines = 0
        with path.open("wb") as target:
            for offset, length in self._lines[kind].ranges():
                _copy(source, offset, length, target)
                size += length
                lines += 1
        return SpooledFile(path, size, lines) if lines else None

    def discard(self) -> None:
        """Remove everything."""
        for file in (self._finished, self._retry):
            file.close()
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()


def _copy(source: IO[bytes], offset: int, length: int, target: IO[bytes]) -> None:
    while length > 0:
        block = os.pread(source.fileno(), min(length, COPY_BYTES), offset)
        if not block:
            raise OSError("the spool is shorter than what was written to it")
        target.write(block)
        offset, length = offset + len(block), length - len(block)
