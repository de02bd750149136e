"""A seed decides what happens, and each schedule is one that can be carried out."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.schedule import LONG, MANNERS, SHORT, Form, make_schedule
from chaos.script import Action, Kind, Target

FORMS = [SHORT, LONG]
seeds = st.integers(0, 2**32)
some = settings(max_examples=30)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_seed_gives_the_same_and_another_gives_another(form: Form) -> None:
    assert make_schedule(7, form, "x") == make_schedule(7, form, "x")
    assert make_schedule(7, form, "x").kills != make_schedule(8, form, "x").kills


def test_names_do_not_change_what_happens() -> None:
    assert make_schedule(7, LONG, "x").kills == make_schedule(7, LONG, "y").kills


@some
@given(seeds, st.sampled_from(FORMS))
def test_every_kind_and_every_kill_of_the_form_is_there_as_often_as_it_says(seed: int, form: Form) -> None:
    schedule = make_schedule(seed, form, "x")
    assert Counter(script.kind for script in schedule.scripts) == Counter(form.kinds)
    assert Counter(kill.target for kill in schedule.kills) == form.kills
    assert len({script.name for script in schedule.scripts}) == len(form.kinds)


@some
@given(seeds, st.sampled_from(FORMS))
def test_kills_are_of_their_kind_and_come_after_the_beginning(seed: int, form: Form) -> None:
    for kill in make_schedule(seed, form, "x").kills:
        assert kill.manner in MANNERS[kill.target]
        assert kill.at >= 1
        assert 0 <= kill.draw < 1
        assert (kill.seconds > 0) == (kill.target in (Target.NODE, Target.API_SERVER))


@some
@given(seeds)
def test_a_node_is_back_before_it_is_lost_again(seed: int) -> None:
    losses = sorted(kill.at for kill in make_schedule(seed, LONG, "x").kills if kill.target is Target.NODE)
    assert all(later - earlier > 200 for earlier, later in pairwise(losses))


@some
@given(seeds, st.sampled_from(FORMS))
def test_what_is_suspended_is_resumed_and_what_is_cancelled_or_deleted_to_run_again_is_applied_again(
    seed: int, form: Form
) -> None:
    ends = {
        Kind.SUSPEND: [Action.SUSPEND, Action.RESUME],
        Kind.CANCEL: [Action.CANCEL],
        Kind.CANCEL_AND_AGAIN: [Action.CANCEL, Action.APPLY_AGAIN],
        Kind.DELETE_AND_AGAIN: [Action.APPLY_AGAIN],
    }
    for script in make_schedule(seed, form, "x").scripts:
        assert [step.action for step in script.steps] == ends.get(script.kind, [])


@some
@given(seeds)
def test_failures_are_many_enough_to_be_too_many(seed: int) -> None:
    for script in make_schedule(seed, LONG, "x").scripts:
        if script.kind is Kind.FAILURES:
            assert script.max_failures is not None
            assert len(script.refused) > 3 * script.max_failures


def test_an_invalid_input_has_a_line_twice_and_others_have_none() -> None:
    for script in make_schedule(1, LONG, "x").scripts:
        lines = script.input_lines()
        assert (len(lines) - len(set(lines))) == (script.kind is Kind.INVALID)
