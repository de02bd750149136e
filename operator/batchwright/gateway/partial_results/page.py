"""One page of finished lines: read as far as it has room, with the place to go on from."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from batchwright.batchfile.lines import OversizeLine, split_lines
from batchwright.batchfile.shard_record import ShardFile
from batchwright.gateway.partial_results.cursor import Cursor
from batchwright.gateway.partial_results.shards import Committed
from batchwright.storage.protocol import ObjectStore

MAX_PAGE_BYTES: Final = 4 << 20
"""A page ends with the line that passes it."""
MAX_LINE_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Page:
    """Lines as they stand, without their ends, and where to go on."""

    lines: tuple[bytes, ...]
    after: Cursor
    has_more: bool
    """Whether there are more by now."""


def read_page(store: ObjectStore, shards: Iterable[Committed], cursor: Cursor, limit: int) -> Page:
    """The next lines, at most so many.

    Raises:
        ValueError: the place is none that was ever given: it lies within a line.
        NotFound: a file is gone, since the merge has published meanwhile, or what was published was deleted.
        StorageError: the storage can't be used.
    """
    lines: list[bytes] = []
    size = 0
    now = cursor
    for shard in _in_turn(shards, cursor):
        if len(lines) >= limit or size >= MAX_PAGE_BYTES:
            return Page(tuple(lines), now, has_more=True)
        offset = cursor.offset if shard.shard == cursor.shard else 0
        for line, length in _lines(store, shard, offset):
            offset += length
            if line is not None:
                lines.append(line)
                size += length
            if (len(lines) >= limit or size >= MAX_PAGE_BYTES) and offset < shard.size:
                return Page(tuple(lines), replace(now, shard=shard.shard, offset=offset), has_more=True)
        now = Cursor(now.done | {shard.shard})
    return Page(tuple(lines), now, has_more=False)


def _in_turn(shards: Iterable[Committed], cursor: Cursor) -> Iterator[Committed]:
    """What the client doesn't have; the shard that it is in the middle of comes first."""
    left = [shard for shard in shards if shard.shard not in cursor.done]
    return iter(sorted(left, key=lambda shard: (shard.shard != cursor.shard, shard.shard)))


def _lines(store: ObjectStore, shard: Committed, offset: int) -> Iterator[tuple[bytes | None, int]]:
    """Each line from an offset on, with its length in the file; None for one that is too long to be shown."""
    skipped = 0
    for file in shard.files:
        begin = max(0, offset - skipped)
        skipped += file.bytes
        if begin < file.bytes:
            yield from _lines_of(store, file, begin)


def _lines_of(store: ObjectStore, file: ShardFile, begin: int) -> Iterator[tuple[bytes | None, int]]:
    chunks = store.stream(file.key, start=file.start + max(0, begin - 1), end=file.end, chunk_size=_CHUNK_BYTES)
    for some in split_lines(_behind_line(chunks) if begin else chunks, MAX_LINE_BYTES):
        for line in some:
            yield (None if isinstance(line, OversizeLine) else line), len(line) + 1


def _behind_line(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the end of a line, which must come first."""
    first = next(chunks, b"")
    if first[:1] != b"\n":
        raise ValueError("not a place in the results")
    yield first[1:]
    yield from chunks
