"""Files of shards as pieces of one object."""

from collections.abc import Iterable, Iterator

from batchwright.batchfile.shard_record import ShardFile
from batchwright.storage.protocol import ObjectRange


def pieces_of(files: Iterable[ShardFile]) -> Iterator[ObjectRange]:
    """One piece for each file, and one for all that follow each other within the same object: a store copies a large
    range by itself, where it would have to be read shard by shard.
    """
    held: ObjectRange | None = None
    for file in files:
        piece = ObjectRange(file.key, file.start, file.end, file.etag or None)
        if held is not None and (held.key, held.end, held.etag) == (piece.key, piece.start, piece.etag):
            held = ObjectRange(held.key, held.start, piece.end, held.etag)
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held
