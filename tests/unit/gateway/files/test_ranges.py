import pytest

from batchwright.gateway.files.ranges import ByteRange, Unsatisfiable, asked_range


@pytest.mark.parametrize(
    ("header", "size", "expected"),
    [
        ("bytes=0-9", 100, (0, 10)),
        ("bytes=0-0", 100, (0, 1)),
        ("bytes=90-", 100, (90, 100)),
        ("bytes=90-1000", 100, (90, 100)),
        ("bytes=-10", 100, (90, 100)),
        ("bytes=-1000", 100, (0, 100)),
        ("Bytes = 5 - 6", 100, (5, 7)),
        (None, 100, None),
        ("", 100, None),
        ("bytes=-", 100, None),
        ("bytes=9-5", 100, None),
        ("bytes=a-b", 100, None),
        ("lines=0-9", 100, None),
        ("bytes=0-1,5-6", 100, None),
        (f"bytes={'9' * 5000}-", 100, None),
    ],
)
def test_one_range_is_taken_and_what_cant_be_read_is_passed_over(
    header: str | None, size: int, expected: tuple[int, int] | None
) -> None:
    assert asked_range(header, size) == (expected and ByteRange(*expected))


@pytest.mark.parametrize(("header", "size"), [("bytes=100-", 100), ("bytes=0-", 0), ("bytes=-0", 100), ("bytes=-5", 0)])
def test_a_range_behind_the_end_is_unsatisfiable(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        asked_range(header, size)
