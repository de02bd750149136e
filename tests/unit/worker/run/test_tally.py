"""Counts add up, whatever the order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.api.text import MAX_COUNT_NAME_LENGTH, MAX_COUNT_NAMES
from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.shard_record import Totals
from batchwright.worker.run.tally import Tally, add_totals, subtract_totals

counts = st.one_of(st.none(), st.integers(0, 1000))
readings = st.builds(
    Reading,
    usage=st.builds(Usage, counts, counts, counts, counts, counts),
    finish_reasons=st.lists(st.sampled_from(["stop", "length"]), max_size=2).map(tuple),
)
outcomes = st.lists(st.one_of(readings, st.sampled_from(["400", "500", "request_timeout"])), max_size=20)


def tallied(some: list[Reading | str]) -> Totals:
    tally = Tally()
    for outcome in some:
        if isinstance(outcome, Reading):
            tally.success(outcome)
        else:
            tally.failure(outcome)
    return tally.totals()


def test_nothing_is_zero_requests_and_unknown_tokens() -> None:
    assert tallied([]) == Totals(completed=0, failed=0, usage=Usage(), finish_reasons={}, error_codes={})


def test_each_outcome_is_counted() -> None:
    read = Reading(Usage(input_tokens=3, output_tokens=2), ("stop", "length"))
    assert tallied([read, "400", read, "400", "request_timeout"]) == Totals(
        completed=2,
        failed=3,
        usage=Usage(input_tokens=6, output_tokens=4),
        finish_reasons={"stop": 2, "length": 2},
        error_codes={"400": 2, "request_timeout": 1},
    )


def test_unknown_is_not_zero() -> None:
    known = Reading(Usage(cached_tokens=0), ())
    assert tallied([Reading(Usage(), ())]).usage.cached_tokens is None
    assert tallied([known, Reading(Usage(), ())]).usage.cached_tokens == 0


@given(left=outcomes, right=outcomes)
def test_parts_add_up_to_the_whole(left: list[Reading | str], right: list[Reading | str]) -> None:
    assert add_totals(tallied(left), tallied(right)) == tallied(left + right)


@given(part=outcomes, rest=outcomes)
def test_the_whole_without_a_part_is_the_rest(part: list[Reading | str], rest: list[Reading | str]) -> None:
    left, expected = subtract_totals(tallied(part + rest), tallied(part)), tallied(rest)
    assert (left.completed, left.failed) == (expected.completed, expected.failed)
    assert (left.finish_reasons, left.error_codes) == (expected.finish_reasons, expected.error_codes)
    for name in Usage.__struct_fields__:
        # What was known of the part alone is nothing in the rest.
        assert (getattr(left.usage, name) or 0) == (getattr(expected.usage, name) or 0)


@pytest.mark.parametrize("earlier", [{}, {"stop": 1}])
def test_a_value_does_not_grow_afterwards(earlier: dict[str, int]) -> None:
    tally = Tally(finish_reasons=dict(earlier))
    before = tally.totals()
    tally.success(Reading(Usage(), ("stop",)))
    tally.failure("400")
    assert before.finish_reasons == earlier
    assert before.error_codes == {}


def test_whatever_names_a_server_makes_up_the_names_are_bounded_and_all_answers_are_counted() -> None:
    tally = Tally()
    for number in range(1000):
        tally.success(Reading(Usage(), ("stop", f"reason-{number}", "x" * number)))
        tally.failure(f"code-{number}")
    totals = tally.totals()
    assert totals.finish_reasons["stop"] == 1000
    assert sum(totals.finish_reasons.values()) == 3000
    assert sum(totals.error_codes.values()) == 1000
    for names in (totals.finish_reasons, totals.error_codes):
        assert len(names) <= MAX_COUNT_NAMES
        assert max(map(len, names)) <= MAX_COUNT_NAME_LENGTH
