"""Numbers of shards, compressed for a report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.worker.merge import ranges


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([4, 5], "4-5"),
        ([0, 1, 2, 3, 4, 5, 7], "0-5,7"),
        ([0, 2, 4], "0,2,4"),
        ([9, 10, 11, 99, 100], "9-11,99-100"),
    ],
)
def test_neighbours_become_a_range(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@given(st.sets(st.integers(0, 500)))
def test_ranges_say_exactly_the_numbers(numbers: set[int]) -> None:
    said: set[int] = set()
    for part in filter(None, ranges(sorted(numbers)).split(",")):
        first, _, last = part.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers
