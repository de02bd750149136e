"""Two ascending series are compared as they come, however long they are."""

from itertools import count, islice

import pytest

from batchwright.gateway.keeper.remains import only_in_first


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("", "", ""),
        ("abc", "", "abc"),
        ("", "abc", ""),
        ("abc", "abc", ""),
        ("abc", "b", "ac"),
        ("b", "abc", ""),
        ("ace", "bdf", "ace"),
        ("abcdef", "bcf", "ade"),
        ("ab", "xyz", "ab"),
        ("xyz", "ab", "xyz"),
    ],
)
def test_what_is_in_the_first_alone_is_found(first: str, second: str, found: str) -> None:
    assert "".join(only_in_first(first, second)) == found


def test_neither_series_is_read_further_than_needed() -> None:
    numbers = (f"{number:09}" for number in count())
    even = (f"{number:09}" for number in count(0, 2))
    assert list(islice(only_in_first(numbers, even), 3)) == ["000000001", "000000003", "000000005"]
    assert next(numbers) == "000000006"
