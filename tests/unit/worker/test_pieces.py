"""Files of shards as pieces of one object."""

from batchwright.batchfile.shard_record import ShardFile
from batchwright.storage.protocol import ObjectRange
from batchwright.worker.pieces import pieces_of


def test_each_file_is_a_piece() -> None:
    files = [ShardFile("a", 10, 1), ShardFile("b", 5, 1, "etag"), ShardFile("a", 10, 1)]
    assert list(pieces_of(files)) == [
        ObjectRange("a", 0, 10),
        ObjectRange("b", 0, 5, "etag"),
        ObjectRange("a", 0, 10),
    ]


def test_what_follows_each_other_within_an_object_is_one_piece() -> None:
    files = [
        ShardFile("a", 10, 1),
        ShardFile("a", 5, 1, start=10),
        ShardFile("a", 5, 1, start=20),
        ShardFile("new", 1, 1),
        ShardFile("a", 7, 1, start=25),
        ShardFile("b", 7, 1, start=32),
    ]
    assert list(pieces_of(files)) == [
        ObjectRange("a", 0, 15),
        ObjectRange("a", 20, 25),
        ObjectRange("new", 0, 1),
        ObjectRange("a", 25, 32),
        ObjectRange("b", 32, 39),
    ]


def test_nothing() -> None:
    assert list(pieces_of([])) == []
