"""Sets of numbers as ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.number_ranges import compressed, expanded


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([0, 1, 2], "0-2"), ([5, 0, 1, 7, 6], "0-1,5-7"), ([3, 3], "3")],
)
def test_ranges_are_ascending_and_as_short_as_can_be(numbers: list[int], text: str) -> None:
    assert compressed(numbers) == text


@given(st.sets(st.integers(0, 999)))
def test_what_was_compressed_is_found_again(numbers: set[int]) -> None:
    assert expanded(compressed(numbers), 1000) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0-1000", "1000", "1 ", "٣", "0-99999999999"])
def test_what_are_no_ranges_below_the_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ranges"):
        expanded(text, 1000)
