"""Shards of an index with gaps."""

from itertools import pairwise

import pytest

from batchwright.batchfile.input_index import InputIndex
from batchwright.batchfile.plan_record import Shard


def index_of(text: bytes, mark: int = 0) -> InputIndex:
    """Of a text in which each line that is not blank is a request."""
    index = InputIndex()
    if mark:
        index.add_gap(mark, lines=0)
    for line in text.splitlines(keepends=True):
        if line.strip():
            index.add_request(len(line))
        else:
            index.add_gap(len(line))
    return index


@pytest.mark.parametrize(
    ("text", "lines_per_shard", "shards"),
    [
        (b"", 1, []),
        (b"\n\n", 1, []),
        (b"aa\n", 1, [Shard(0, 3, 1, 1)]),
        (b"aa\nb\n", 1, [Shard(0, 3, 1, 1), Shard(3, 5, 2, 1)]),
        (b"aa\nb\n", 2, [Shard(0, 5, 1, 2)]),
        (b"aa\nb\n", 99, [Shard(0, 5, 1, 2)]),
        (b"aa\nb\nc\n", 2, [Shard(0, 5, 1, 2), Shard(5, 7, 3, 1)]),
        (b"\n\naa\nb\n", 1, [Shard(2, 5, 3, 1), Shard(5, 7, 4, 1)]),
        (b"aa\n\n \nb\n", 1, [Shard(0, 6, 1, 1), Shard(6, 8, 4, 1)]),
        (b"aa\n\n\nb\n\n", 2, [Shard(0, 7, 1, 2)]),
    ],
)
def test_shards(text: bytes, lines_per_shard: int, shards: list[Shard]) -> None:
    assert index_of(text).shards(lines_per_shard) == shards


def test_a_byte_order_mark_moves_the_shards_and_is_no_line() -> None:
    assert index_of(b"\na\nb\n", mark=3).shards(1) == [Shard(4, 6, 2, 1), Shard(6, 8, 3, 1)]


def test_the_last_shard_ends_with_the_input() -> None:
    index = index_of(b"aa\nb\n")  # the validator counts an end for the last line too
    assert index.shards(1, size=4) == [Shard(0, 3, 1, 1), Shard(3, 4, 2, 1)]
    assert index.shards(2, size=4) == [Shard(0, 4, 1, 2)]


def test_lines_and_requests_are_counted() -> None:
    index = index_of(b"\na\n\n\nb\n", mark=3)
    assert (index.lines, index.requests) == (5, 2)


def test_gaps_of_any_length_are_held_in_little() -> None:
    index = InputIndex()
    index.add_request(10)
    for _ in range(1000):
        index.add_gap(1 << 33)
    index.add_request(10)
    assert len(index._gap_before) == 1
    assert index.shards(1)[1] == Shard(10 + (1000 << 33), 20 + (1000 << 33), 1002, 1)


def test_many_requests_make_contiguous_shards() -> None:
    index = InputIndex()
    for number in range(100_000):
        index.add_request(100 + number % 7)
        if number % 3 == 0:
            index.add_gap(1)
    shards = index.shards(777)
    assert all(left.end == right.start for left, right in pairwise(shards))
    assert sum(shard.lines for shard in shards) == 100_000
