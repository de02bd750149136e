import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from batchwright.storage.join_plan import (
    COPY_PART_BYTES,
    MAX_OBJECT_BYTES,
    MAX_PART_BYTES,
    MAX_PARTS,
    MIB,
    MIN_PART_BYTES,
    STREAM_PART_BYTES,
    CopyPart,
    Part,
    StreamPart,
    plan_parts,
)
from batchwright.storage.protocol import Literal, ObjectRange, Piece

GIB = 1 << 30


def object_(size: int, key: str = "k", start: int = 0) -> ObjectRange:
    return ObjectRange(key, start, start + size, "etag")


def shape(parts: list[Part]) -> list[tuple[str, int]]:
    return [("copy" if isinstance(part, CopyPart) else "stream", part.size) for part in parts]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([0, 0], []),
        ([1], [("stream", 1)]),
        ([5 * MIB - 1], [("stream", 5 * MIB - 1)]),
        ([5 * MIB], [("copy", 5 * MIB)]),
        ([6 * MIB, 1], [("copy", 6 * MIB), ("stream", 1)]),
        ([1, 20 * MIB], [("stream", 5 * MIB), ("copy", 15 * MIB + 1)]),
        ([1, 9 * MIB], [("stream", STREAM_PART_BYTES), ("stream", MIB + 1)]),
        ([6 * MIB, 6 * MIB], [("copy", 6 * MIB), ("copy", 6 * MIB)]),
        ([3 * MIB] * 3, [("stream", 8 * MIB), ("stream", MIB)]),
        ([4 * MIB, 4 * MIB], [("stream", 8 * MIB)]),
        ([512 * MIB], [("copy", 256 * MIB)] * 2),
        ([COPY_PART_BYTES + 2], [("copy", COPY_PART_BYTES // 2 + 1)] * 2),
    ],
)
def test_pieces_become_parts(sizes: list[int], expected: list[tuple[str, int]]) -> None:
    assert shape(plan_parts([object_(size) for size in sizes])) == expected


def test_literals_are_always_streamed() -> None:
    parts = plan_parts([Literal(bytes(20 * MIB))])
    assert shape(parts) == [("stream", 8 * MIB), ("stream", 8 * MIB), ("stream", 4 * MIB)]


def test_everything_is_streamed_where_the_store_cannot_copy() -> None:
    parts = plan_parts([object_(17 * MIB)], copies=False)
    assert shape(parts) == [("stream", 8 * MIB), ("stream", 8 * MIB), ("stream", MIB)]


def test_ten_thousand_shard_files_are_ten_thousand_copies() -> None:
    parts = plan_parts([object_(8 * MIB)] * MAX_PARTS)
    assert shape(parts) == [("copy", 8 * MIB)] * MAX_PARTS


def test_the_largest_object_has_a_plan() -> None:
    pieces: list[Piece] = [object_(MAX_OBJECT_BYTES)]
    assert_legal(plan_parts(pieces), pieces)


def test_the_largest_object_of_small_pieces_has_a_plan() -> None:
    parts = plan_parts([object_(MAX_OBJECT_BYTES // 20_000)] * 20_000)
    assert len(parts) <= MAX_PARTS
    assert max(part.size for part in parts) <= MAX_PART_BYTES


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more than an object can have"):
        plan_parts([object_(MAX_OBJECT_BYTES), Literal(b"x")])


def flattened(parts: list[Part]) -> list[Piece]:
    """All pieces in order, neighbours of one object put together again."""
    merged: list[Piece] = []
    for part in parts:
        for piece in [part.source] if isinstance(part, CopyPart) else part.pieces:
            merged = _append(merged, piece)
    return merged


def _append(merged: list[Piece], piece: Piece) -> list[Piece]:
    if piece.size == 0:
        return merged
    last = merged[-1] if merged else None
    if isinstance(last, Literal) and isinstance(piece, Literal):
        return [*merged[:-1], Literal(last.data + piece.data)]
    if isinstance(last, ObjectRange) and isinstance(piece, ObjectRange) and _touch(last, piece):
        return [*merged[:-1], ObjectRange(last.key, last.start, piece.end, last.etag)]
    return [*merged, piece]


def _touch(left: ObjectRange, right: ObjectRange) -> bool:
    return (left.key, left.etag, left.end) == (right.key, right.etag, right.start)


def assert_legal(parts: list[Part], pieces: list[Piece]) -> None:
    expected: list[Piece] = []
    for piece in pieces:
        expected = _append(expected, piece)
    assert flattened(parts) == expected
    assert len(parts) <= MAX_PARTS
    assert all(part.size >= MIN_PART_BYTES for part in parts[:-1])
    assert all(0 < part.size <= MAX_PART_BYTES for part in parts)


sizes = st.one_of(
    st.integers(0, 64),
    st.integers(0, 3 * MIB),
    st.integers(MIN_PART_BYTES - 2, MIN_PART_BYTES + 2),
    st.integers(STREAM_PART_BYTES - 2, STREAM_PART_BYTES + 2),
    st.integers(2 * MIN_PART_BYTES - 2, 2 * MIN_PART_BYTES + 2),
    st.integers(COPY_PART_BYTES - 2, 3 * COPY_PART_BYTES),
    st.integers(0, 12 * GIB),
)
object_pieces = st.builds(object_, sizes, st.sampled_from("abc"), st.integers(0, 100))
literals = st.binary(max_size=64).map(Literal)
large_literals = st.integers(0, 20 * MIB).map(lambda size: Literal(bytes(size)))


@given(st.lists(st.one_of(object_pieces, literals), max_size=40))
def test_plans_are_legal_and_lose_nothing(pieces: list[Piece]) -> None:
    assert_legal(plan_parts(pieces), pieces)


@settings(max_examples=20)
@given(st.lists(st.one_of(object_pieces, large_literals), max_size=4))
def test_large_literals_are_split_rightly(pieces: list[Piece]) -> None:
    assert_legal(plan_parts(pieces), pieces)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20 * MIB), min_size=1, max_size=20), st.integers(1, 12_000))
def test_many_pieces_keep_to_the_number_of_parts(sizes: list[int], repeats: int) -> None:
    assume(sum(sizes) > 0)
    pieces: list[Piece] = [object_(size, key=str(number)) for number, size in enumerate(sizes)]
    pieces = (pieces * repeats)[:24_000]
    parts = plan_parts(pieces)
    assert sum(part.size for part in parts) == sum(piece.size for piece in pieces)
    assert len(parts) <= MAX_PARTS
    assert all(MIN_PART_BYTES <= part.size <= MAX_PART_BYTES for part in parts[:-1])


@given(st.lists(st.one_of(st.integers(0, 3 * MIB), st.integers(0, 300 * MIB)).map(object_), max_size=12))
def test_without_copies_parts_fit_into_memory(pieces: list[Piece]) -> None:
    parts = plan_parts(pieces, copies=False)
    assert_legal(parts, pieces)
    assert all(isinstance(part, StreamPart) and part.size <= STREAM_PART_BYTES for part in parts)


@given(st.lists(st.one_of(object_pieces, literals), max_size=40))
def test_little_is_streamed_where_copies_are_possible(pieces: list[Piece]) -> None:
    """At most the small pieces, and what a copy lends to the stream in front of it."""
    streamed = sum(part.size for part in plan_parts(pieces) if isinstance(part, StreamPart))
    small = sum(piece.size for piece in pieces if piece.size < 2 * MIN_PART_BYTES)
    assert streamed <= small + MIN_PART_BYTES * len(pieces)
