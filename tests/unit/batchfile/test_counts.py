"""Token counts. Unknown is not zero."""

import pytest

from batchwright.api.text import MAX_COUNT_NAMES
from batchwright.batchfile.counts import MAX_TOTAL, ProgressCounts, Usage, add_counts, sum_usage


@pytest.mark.parametrize(
    ("left", "right", "total"), [(None, None, None), (None, 0, 0), (0, None, 0), (1, None, 1), (1, 2, 3), (0, 0, 0)]
)
def test_unknown_counts_add_nothing_and_stay_unknown(left: int | None, right: int | None, total: int | None) -> None:
    for name in Usage.__struct_fields__:
        assert Usage(**{name: left}) + Usage(**{name: right}) == Usage(**{name: total})


def test_many_are_summed_field_by_field() -> None:
    usages = [Usage(1, 2, 3, None, 4), Usage(10, None, 30, None, 40), Usage()]
    assert sum_usage(usages) == Usage(11, 2, 33, None, 44)
    assert sum_usage([]) == Usage()


def test_counts_by_name_come_with_the_greatest_first() -> None:
    total = add_counts({"stop": 1, "length": 2}, {"stop": 5, "abort": 2}, {})
    assert list(total.items()) == [("stop", 6), ("abort", 2), ("length", 2)]


def test_a_total_stays_an_int64() -> None:
    assert Usage(input_tokens=MAX_TOTAL) + Usage(input_tokens=2**53) == Usage(input_tokens=MAX_TOTAL)


def test_names_that_servers_choose_are_bounded() -> None:
    many = {f"reason-{n:02}": 100 - n for n in range(30)}
    total = add_counts(many, {"x" * 41: 5, "two words": 7})
    assert len(total) == MAX_COUNT_NAMES
    assert sum(total.values()) == sum(many.values()) + 12
    assert total["reason-00"] == 100


def test_counts_of_progress_add_up_and_keep_the_greater() -> None:
    one, other = ProgressCounts(10, 200, 9), ProgressCounts(12, 100, 9)
    assert one + other == ProgressCounts(22, 300, 18)
    assert one.at_least(other) == other.at_least(one) == ProgressCounts(12, 200, 9)
    assert (one + other).at_most(15) == ProgressCounts(15, 300, 15)
    assert ProgressCounts(1, MAX_TOTAL) + one == ProgressCounts(11, MAX_TOTAL, 9)
