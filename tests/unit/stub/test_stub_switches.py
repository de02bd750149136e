"""The language of body.metadata.stub: what it means, what it refuses, which step an attempt gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stub.chance import unit_draw
from stub.delays import Fixed, HeavyTailed, Uniform, parse_delay
from stub.errors import SwitchError
from stub.switches import ORDINARY, Step, Switches, parse_switches


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("delay=1.5", (Step(delay=Fixed(1.5)),)),
        ("delay=0.1-0.9", (Step(delay=Uniform(0.1, 0.9)),)),
        ("delay=pareto:0.05:1.5", (Step(delay=HeavyTailed(0.05, 1.5, 5.0)),)),
        ("delay=pareto:0.05:1.5:2", (Step(delay=HeavyTailed(0.05, 1.5, 2.0)),)),
        ("status=503,times=2", (Step(status=503, times=2),)),
        ("status=429,retry_after=7", (Step(status=429, retry_after="7"),)),
        ("status=502,body=html", (Step(status=502, body="html"),)),
        ("finish=abort", (Step(finish="abort"),)),
        ("finish=null", (Step(finish="null"),)),
        ("reset=after_read", (Step(reset="after_read"),)),
        ("reset=mid_body,size=5MB", (Step(reset="mid_body", size=5_000_000),)),
        ("hang", (Step(hang=True),)),
        ("body=truncated,size=2KiB", (Step(body="truncated", size=2048),)),
        ("text=surrogate", (Step(text="surrogate"),)),
        ("text=line_separator", (Step(text="line_separator"),)),
        ("cached=5,reasoning=3", (Step(cached=5, reasoning=3),)),
        ("usage=none", (Step(usage="none"),)),
        (" status=500 , times=1 ", (Step(status=500, times=1),)),
        ("status=500,times=1; hang,times=1;", (Step(status=500, times=1), Step(hang=True, times=1))),
    ],
)
def test_a_text_means_its_steps(text: str, want: tuple[Step, ...]) -> None:
    assert parse_switches(text).steps == want


def test_seed_and_id_belong_to_all_steps() -> None:
    switches = parse_switches("status=500,times=1,seed=7;hang,times=1,id=line-3")
    assert (switches.seed, switches.key) == (7, "line-3")
    assert [step.times for step in switches.steps] == [1, 1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("stauts=503", "unknown switch 'stauts'"),
        ("status", "status needs a value"),
        ("status=", "not a whole number"),
        ("status=99", "from 200 to 599"),
        ("status=503.0", "not a whole number"),
        ("status=503,status=500", "set twice"),
        ("hang=1", "hang takes no value"),
        ("times=0", "from 1"),
        ("delay=soon", "not a number of seconds"),
        ("delay=-1", "not between 0"),
        ("delay=nan", "not between 0"),
        ("delay=4000", "not between 0"),
        ("delay=2-1", "backwards"),
        ("delay=pareto:1", "pareto:SCALE:SHAPE"),
        ("delay=pareto:0:2", "above 0"),
        ("delay=pareto:2:2:1", "CAP not below SCALE"),
        ("fraction=1.1", "from 0 to 1"),
        ("fraction=nan", "from 0 to 1"),
        ("size=0", "not a size"),
        ("size=5 MB", "not a size"),
        ("size=1000MB", "not a size"),
        ("finish=done", "none of stop, length, abort, null"),
        ("body=xml", "none of"),
        ("reset=now", "none of"),
        ("retry_after=", "empty"),
        ("seed=1,times=1;seed=2", "seed stands in two steps"),
        ("hang;status=500", "cannot be reached"),
        ("hang,status=500", "hang leaves no place for status"),
        ("hang,delay=1", "hang leaves no place for delay"),
        ("status=500,finish=length", "status=500 leaves no place for finish"),
        ("body=empty,size=5MB", "body=empty leaves no place for size"),
        ("reset=after_read,status=500", "reset=after_read leaves no place for status"),
        ("reset=before_read,delay=1", "reset=before_read leaves no place for delay"),
    ],
)
def test_a_text_at_fault_is_refused_and_named(text: str, complaint: str) -> None:
    with pytest.raises(SwitchError, match=complaint):
        parse_switches(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("status=503,times=2", [503, 503, None, None]),
        ("status=503", [503, 503, 503, 503]),
        ("status=503,times=1;status=429,times=2", [503, 429, 429, None]),
        ("status=503,times=1;status=500", [503, 500, 500, 500]),
        ("status=503,fraction=0", [None, None, None, None]),
        ("status=503,fraction=1", [503, 503, 503, 503]),
    ],
)
def test_steps_follow_one_another_by_attempts(text: str, want: list[int | None]) -> None:
    switches = parse_switches(text)
    assert [switches.step_for(attempt, "a").status for attempt in range(4)] == want


def test_no_switches_mean_an_ordinary_answer() -> None:
    assert Switches().step_for(0, "a") is ORDINARY


def test_a_fraction_fails_that_part_of_the_requests_and_the_same_ones_each_time() -> None:
    def failing(text: str) -> set[int]:
        return {n for n in range(10_000) if parse_switches(text).step_for(0, f"line-{n}") is not ORDINARY}

    tenth = failing("status=500,fraction=0.1,seed=1")
    assert 900 < len(tenth) < 1100
    assert tenth == failing("status=500,fraction=0.1,seed=1")
    assert tenth != failing("status=500,fraction=0.1,seed=2")


@given(st.integers(), st.text(), st.integers(0, 10))
def test_a_draw_is_in_range_and_depends_on_its_purpose_alone(seed: int, key: str, attempt: int) -> None:
    draw = unit_draw(seed, key, attempt)
    assert 0 <= draw < 1
    assert draw == unit_draw(seed, key, attempt)
    assert draw != unit_draw(seed, key, attempt, "another purpose")


@given(st.floats(0, 1, exclude_max=True))
def test_delays_keep_their_bounds(draw: float) -> None:
    assert parse_delay("0.25").seconds_at(draw) == 0.25
    assert 0.1 <= parse_delay("0.1-0.5").seconds_at(draw) <= 0.5
    assert 0.05 <= parse_delay("pareto:0.05:1.1:3").seconds_at(draw) <= 3


def test_a_heavy_tail_has_a_short_median_and_a_long_end() -> None:
    delay = parse_delay("pareto:0.05:1.5")
    drawn = sorted(delay.seconds_at(n / 10_000) for n in range(10_000))
    assert drawn[5_000] < 0.1
    assert drawn[9_990] > 1
