"""How large the parts of an upload are whose size nobody knows."""

from batchwright.storage.join_plan import MAX_OBJECT_BYTES, MAX_PART_BYTES, MAX_PARTS, MIN_PART_BYTES, STREAM_PART_BYTES
from batchwright.storage.s3_spooled import part_bytes

SIZES = [part_bytes(number) for number in range(1, MAX_PARTS + 1)]


def test_as_many_parts_as_there_may_be_hold_the_largest_object() -> None:
    assert sum(SIZES) >= MAX_OBJECT_BYTES


def test_each_part_is_one_that_a_store_takes() -> None:
    assert min(SIZES) >= MIN_PART_BYTES
    assert max(SIZES) <= MAX_PART_BYTES


def test_the_parts_of_all_but_huge_objects_are_of_one_size() -> None:
    """Some stores (Cloudflare R2) demand that."""
    assert set(SIZES[:1000]) == {STREAM_PART_BYTES}
    assert sorted(SIZES) == SIZES
