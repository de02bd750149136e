"""One page of finished lines: read as far as it has room, with the place to go on from.

A line may be as long as a model server's answer, or as whatever a tenant has put there. So no line is held: a page goes
out as it is read, chunk by chunk, and what it says of itself, the place to go on from, comes behind its lines.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from batchwright.batchfile.shard_record import ShardFile
from batchwright.gateway.partial_results.cursor import Cursor
from batchwright.gateway.partial_results.shards import Committed
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import ObjectStore

MAX_PAGE_BYTES: Final = 4 << 20
"""A page ends with the line that passes it."""
CHUNK_BYTES: Final = 256 << 10
BETWEEN: Final = b", "
"""Between two lines."""


class Page:
    """Lines as they stand, with `BETWEEN` in place of their ends. To be read once; then it says where to go on."""

    def __init__(self, store: ObjectStore, shards: Iterable[Committed], cursor: Cursor, limit: int) -> None:
        """limit: lines at most."""
        self._store = store
        self._shards = shards
        self._begun_at = cursor
        self._limit = limit
        self._lines = 0
        self._bytes = 0
        self._within_line = False
        self.after = cursor
        """The place behind the last line."""
        self.has_more = False
        """Whether there are more by now."""

    def pieces(self) -> Iterator[bytes]:
        """The lines, in pieces of a chunk and little more; none of them is empty.

        What fails between two lines ends the page there, unless it has none yet.

        Raises:
            ValueError: at once; the place is none that was ever given: it lies within a line.
            NotFound: a file is gone, since the merge has published meanwhile, or what was published was deleted.
            StorageError: the storage can't be used.
        """
        for shard in _in_turn(self._shards, self._begun_at):
            try:
                yield from self._of_shard(shard)
            except StorageError:
                if self._within_line or not self._lines:
                    raise
                self.has_more = True
            if self.has_more:
                return

    def _of_shard(self, shard: Committed) -> Iterator[bytes]:
        begin = self._begun_at.offset if shard.shard == self._begun_at.shard else 0
        done = self.after.done
        skipped = 0
        for file in shard.files:
            first, skipped = max(0, begin - skipped), skipped + file.bytes
            if first < file.bytes:
                for taken, piece in self._of_file(file, first):
                    if piece:
                        yield piece
                    if not self._within_line:
                        self.after = Cursor(done, shard.shard, skipped - file.bytes + taken)
                if self.has_more:
                    return
        self.after = Cursor(done | {shard.shard})

    def _of_file(self, file: ShardFile, begin: int) -> Iterator[tuple[int, bytes]]:
        """Pieces, each with the place in the file behind it."""
        place, chunks = begin, _chunks(self._store, file, begin)
        while self._has_room() and (chunk := next(chunks, b"")):
            before = BETWEEN if self._lines and not self._within_line else b""
            taken = chunk[: self._room(chunk)]
            self._within_line = not taken.endswith(b"\n")
            place += len(taken)
            yield place, before + taken.removesuffix(b"\n").replace(b"\n", BETWEEN)
        if self._within_line:  # a last line without its end, which no worker writes
            self._within_line = False
            self._lines += 1
        self.has_more = not self._has_room() and place < file.bytes

    def _room(self, chunk: bytes) -> int:
        """How much of a chunk belongs to the page. A line that has begun does, whatever its length."""
        begin = 0
        while end := chunk.find(b"\n", begin) + 1:
            self._lines += 1
            self._bytes += end - begin
            if self._is_full():
                return end
            begin = end
        self._bytes += len(chunk) - begin
        return len(chunk)

    def _has_room(self) -> bool:
        return self._within_line or not self._is_full()

    def _is_full(self) -> bool:
        return self._lines >= self._limit or self._bytes >= MAX_PAGE_BYTES


def _in_turn(shards: Iterable[Committed], cursor: Cursor) -> Iterator[Committed]:
    """What the client doesn't have; the shard that it is in the middle of comes first."""
    left = [shard for shard in shards if shard.shard not in cursor.done]
    return iter(sorted(left, key=lambda shard: (shard.shard != cursor.shard, shard.shard)))


def _chunks(store: ObjectStore, file: ShardFile, begin: int) -> Iterator[bytes]:
    """A file's bytes from the beginning of a line on. Raises ValueError where none begins there."""
    if begin == 0:
        yield from store.stream(file.key, start=file.start, end=file.end, chunk_size=CHUNK_BYTES)
        return
    chunks = store.stream(file.key, start=file.start + begin - 1, end=file.end, chunk_size=CHUNK_BYTES)
    first = next(chunks, b"")
    if first and first[:1] != b"\n":
        raise ValueError("not a place in the results")
    if first[1:]:
        yield first[1:]
    yield from chunks
