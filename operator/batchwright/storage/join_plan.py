"""How one object is put together from pieces: which parts an S3 multipart upload gets. Pure; no I/O.

The rules are those of Amazon S3 ("Multipart upload limits"), which other stores follow: at most 10,000 parts,
each but the last one at least 5 MiB, a copied part at most 5 GiB.

    pieces   ▂▂▂▂ ████████████████████ ▂▂ ▂▂        ▂ small piece   █ piece worth copying
    parts    [stream ][ copy  ][ copy ][stream]     a stream in front of a copy borrows from it up to 5 MiB
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from batchwright.storage.protocol import Literal, ObjectRange, Piece

MIB = 1 << 20
MAX_PARTS = 10_000
MIN_PART_BYTES = 5 * MIB
MAX_PART_BYTES = 5 << 30

MAX_OBJECT_BYTES = 5 << 40
"""The limit of most stores. (Amazon now takes more, but nothing that we make comes near it.)"""

STREAM_PART_BYTES = 8 * MIB
"""What is collected in memory before it is sent as a part."""

COPY_PART_BYTES = 256 * MIB
"""Large copies are split into parts of about this size: they run side by side, and none outlasts a
timeout.
"""


@dataclass(frozen=True, slots=True)
class CopyPart:
    """A part that the store copies by itself from another object."""

    source: ObjectRange

    @property
    def size(self) -> int:
        return self.source.size


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A part that is read piece by piece and sent."""

    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


Part = CopyPart | StreamPart


def plan_parts(pieces: Iterable[Piece], *, copies: bool = True) -> list[Part]:
    """The parts whose concatenation is that of the pieces, within the limits above.

    `copies=False` streams everything, for stores that cannot copy parts. Empty pieces are dropped.
    Raises ValueError when the object would be larger than 5 TiB.
    """
    wanted = [piece for piece in pieces if piece.size]
    total = sum(piece.size for piece in wanted)
    if total > MAX_OBJECT_BYTES:
        raise ValueError(f"{total} bytes are more than an object can have ({MAX_OBJECT_BYTES})")
    minimum = MIN_PART_BYTES
    while True:
        parts = _Planner(minimum, total, copies).plan(wanted)
        if len(parts) <= MAX_PARTS:
            return parts
        # Every part but the last has at least `minimum` bytes, so this ends at total / 9,999 or before.
        minimum = min(minimum * 2, max(minimum + 1, -(-total // (MAX_PARTS - 1))))


class _Planner:
    def __init__(self, minimum: int, total: int, copies: bool) -> None:
        self._minimum = minimum
        self._stream_size = max(STREAM_PART_BYTES, minimum)
        self._copy_size = max(COPY_PART_BYTES, 2 * minimum, 2 * total // MAX_PARTS)
        self._copies = copies
        self._parts: list[Part] = []
        self._pending: list[Piece] = []
        self._pending_size = 0

    def plan(self, pieces: Sequence[Piece]) -> list[Part]:
        for piece in pieces:
            if not self._copy(piece):
                self._stream(piece)
        self._flush()
        return self._parts

    def _copy(self, piece: Piece) -> bool:
        """Plan copies of the piece, or say no when it has to be streamed."""
        if not self._copies or not isinstance(piece, ObjectRange):
            return False
        borrowed = max(0, self._minimum - self._pending_size) if self._pending else 0
        if piece.size - borrowed < self._minimum:
            return False
        if borrowed:
            head, piece = _split_range(piece, borrowed)
            self._add(head)
        self._flush()
        self._parts.extend(CopyPart(range_) for range_ in _even_ranges(piece, self._copy_size))
        return True

    def _stream(self, piece: Piece) -> None:
        while self._pending_size + piece.size >= self._stream_size:
            room = self._stream_size - self._pending_size
            head, rest = (piece, None) if piece.size == room else _split(piece, room)
            self._add(head)
            self._flush()
            if rest is None:
                return
            piece = rest
        self._add(piece)

    def _add(self, piece: Piece) -> None:
        self._pending.append(piece)
        self._pending_size += piece.size

    def _flush(self) -> None:
        if self._pending:
            self._parts.append(StreamPart(tuple(self._pending)))
            self._pending, self._pending_size = [], 0


def _split(piece: Piece, size: int) -> tuple[Piece, Piece]:
    if isinstance(piece, Literal):
        return Literal(piece.data[:size]), Literal(piece.data[size:])
    return _split_range(piece, size)


def _split_range(range_: ObjectRange, size: int) -> tuple[ObjectRange, ObjectRange]:
    middle = range_.start + size
    return replace(range_, end=middle), replace(range_, start=middle)


def _even_ranges(range_: ObjectRange, largest: int) -> Iterator[ObjectRange]:
    """Ranges of nearly the same size, none above `largest`, so that none is too small either."""
    count = -(-range_.size // largest)
    bounds = [range_.start + range_.size * index // count for index in range(count + 1)]
    for start, end in pairwise(bounds):
        yield replace(range_, start=start, end=end)
