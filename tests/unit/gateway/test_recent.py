"""A bounded number of values."""

from batchwright.gateway.recent import RecentValues


def test_a_value_is_found_again() -> None:
    values: RecentValues[str, int] = RecentValues(2)
    values.put("a", 0)
    assert [values.get("a"), values.get("b")] == [0, None]


def test_of_too_many_the_one_goes_that_was_used_longest_ago() -> None:
    values: RecentValues[str, int] = RecentValues(2)
    for key, value in (("a", 1), ("b", 2)):
        values.put(key, value)
    assert values.get("a") == 1
    values.put("c", 3)
    assert [values.get(key) for key in "abc"] == [1, None, 3]


def test_a_key_has_the_value_that_was_put_last() -> None:
    values: RecentValues[str, int] = RecentValues(2)
    for value in (1, 2):
        values.put("a", value)
    values.put("b", 3)
    assert [values.get("a"), values.get("b")] == [2, 3]
