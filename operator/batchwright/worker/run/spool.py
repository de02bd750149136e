"""Finished lines of an open shard on the worker's own disk, so that memory doesn't grow with what servers answer.

Lines come in the order in which they finish, and leave in input order.
"""

import os
import shutil
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from batchwright.batchfile.shard_record import ERRORS, RESULTS, RETRY

COPY_BYTES: Final = 1 << 20
READ_AT_ONCE_BYTES: Final = 2 << 20
"""Up to this size a file is read whole to put its lines in order: a read for each costs more than all else about it."""
HELD_BYTES: Final = 64 << 10
"""Finished lines in memory until they are written, for each open shard."""
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One of a shard's files, in input order."""

    path: Path
    bytes: int
    lines: int


class Place(Struct, frozen=True, gc=False):
    """Where a line lies in a spool's file, its end included; in bytes."""

    offset: int
    length: int


class _PlacesByPosition:
    """The place of the line of each position: 12 bytes a position, from the first line on."""

    def __init__(self, positions: int) -> None:
        self._positions = positions
        self._offsets = array("q")
        self._lengths = array("I")

    def put(self, position: int, place: Place) -> None:
        if not self._offsets:
            self._offsets = array("q", [_NOWHERE]) * self._positions
            self._lengths = array("I", [0]) * self._positions
        self._offsets[position], self._lengths[position] = place.offset, place.length

    @property
    def lines(self) -> int:
        return len(self._offsets) - self._offsets.count(_NOWHERE)

    def in_order(self) -> Iterator[Place]:
        for offset, length in zip(self._offsets, self._lengths, strict=True):
            if offset != _NOWHERE:
                yield Place(offset, length)


class _LineFile:
    """Lines one after the other in a file, the last ones still in memory: a write for each would cost too much.

    A write that fails, on a full disk, leaves the lines before it as they are.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._written = 0
        self._held = bytearray()

    @property
    def size(self) -> int:
        return self._written + len(self._held)

    def append(self, line: bytes) -> Place:
        place = Place(self.size, len(line) + 1)
        if len(line) >= HELD_BYTES:
            self._append_large(line)
            return place
        self._held += line
        self._held += b"\n"
        if len(self._held) >= HELD_BYTES:
            self._write()
        return place

    def _append_large(self, line: bytes) -> None:
        """Write a line from where it lies."""
        rest = memoryview(line)
        try:
            self._write()
            while rest:
                count = os.pwrite(self._file.fileno(), rest, self._written)
                rest = rest[count:]
                self._written += count
        finally:
            self._held += rest  # nothing, unless the disk is full
            self._held += b"\n"

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self._written:
            self._write()
        return os.pread(self._file.fileno(), length, offset)

    def _write(self) -> None:
        while self._held:
            count = os.pwrite(self._file.fileno(), self._held, self._written)
            del self._held[:count]
            self._written += count

    def copy(self, places: Iterable[Place], target: IO[bytes]) -> None:
        if self.size > READ_AT_ONCE_BYTES:
            for place in places:
                for block in self._blocks(place.offset, place.length):
                    target.write(block)
        else:
            whole = memoryview(b"".join(self._blocks(0, self.size)))
            for place in places:
                target.write(whole[place.offset : place.offset + place.length])

    def _blocks(self, offset: int, length: int) -> Iterator[bytes]:
        while length > 0:
            block = self.read(offset, min(length, COPY_BYTES))
            if not block:
                raise OSError("the spool is shorter than what was written to it")
            yield block
            offset, length = offset + len(block), length - len(block)

    def close(self) -> None:
        self._file.close()


class Spool:
    """Files of one open shard under `folder`. Used by one thread at a time."""

    def __init__(self, folder: Path, positions: int) -> None:
        """`positions`: requests of the shard."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._finished = _LineFile(folder / "finished")
        self._retry = _LineFile(folder / "retry-unordered")
        self._places = {kind: _PlacesByPosition(positions) for kind in (RESULTS, ERRORS, RETRY)}

    def append(self, line: bytes) -> Place:
        """Keep a finished line; gives its place, for `assign`.

        Raises:
            OSError: the disk is full or broken. Earlier lines are not harmed.
        """
        return self._finished.append(line)

    def assign(self, position: int, place: Place, *, succeeded: bool) -> None:
        """Say which request of the shard a kept line belongs to; positions count from 0."""
        self._places[RESULTS if succeeded else ERRORS].put(position, place)

    def append_retry(self, position: int, line: bytes) -> None:
        """Keep the input line of a request that failed.

        Raises:
            OSError: the disk is full or broken.
        """
        self._places[RETRY].put(position, self._retry.append(line))

    @property
    def size(self) -> int:
        """Bytes of all finished lines so far."""
        return self._finished.size

    def line(self, place: Place) -> bytes:
        """A kept line, without its end."""
        return self._finished.read(place.offset, place.length - 1)

    def whole_lines(self, start: int, most: int) -> bytes:
        """Finished lines from the byte `start` on, in the order in which they finished: as many whole ones as fit into
        `most` bytes, one at least; empty at the end.
        """
        while True:
            block = self._finished.read(start, most)
            if (end := block.rfind(b"\n") + 1) or len(block) < most:
                return block[:end]
            most *= 2

    def ordered(self, kind: str) -> SpooledFile | None:
        """Write one of the shard's files in input order; None where it would be empty.

        Raises:
            OSError: the disk is full or broken.
        """
        source = self._retry if kind == RETRY else self._finished
        path = self._folder / kind
        places = self._places[kind]
        if not places.lines:
            return None
        with path.open("wb") as target:
            source.copy(places.in_order(), target)
            size = target.tell()
        return SpooledFile(path, size, places.lines)

    def discard(self) -> None:
        """Remove everything. To call it twice does no harm."""
        self._finished.close()
        self._retry.close()
        shutil.rmtree(self._folder, ignore_errors=True)
