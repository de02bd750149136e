"""How many requests may be sent twice: in flight and one segment for each worker that dies, and no more."""

import pytest

from chaos.bound import allowance
from chaos.records import Outage, Taken
from chaos.script import Action, Manner, Target
from fixtures.chaos import carried, history, script

SCRIPT = script(workers=2, concurrency=4, delay=0.5)
FLIGHT = 4
SEGMENT = 80
"""4 in flight, each for half a second, for 5 s until the next segment and 5 s in which it is written."""


@pytest.mark.parametrize(
    ("kill", "cost"),
    [
        (carried(Target.WORKER, Manner.CRASH), FLIGHT + SEGMENT),
        (carried(Target.WORKER, Manner.DELETE), FLIGHT + SEGMENT),
        (carried(Target.WORKER, Manner.EVICT), FLIGHT),
        (carried(Target.NODE, Manner.POWER_CUT, workers={"job": 2, "other": 1}), 2 * (FLIGHT + SEGMENT)),
        (carried(Target.MODEL_SERVER, Manner.CRASH, workers={"job": 2}), 2 * FLIGHT),
        (carried(Target.MODEL_SERVER, Manner.STOP, workers={"job": 2}), 2 * FLIGHT),
        (carried(Target.OPERATOR, workers={}), 0),
        (carried(Target.API_SERVER, Manner.HANG, workers={}), 0),
        (carried(Target.STORAGE, workers={}), 0),
        (carried(Target.WORKER, workers={"other": 1}), 0),
    ],
)
def test_the_cost_of_a_kill(kill: object, cost: int) -> None:
    assert allowance(SCRIPT, history(kill)) == cost  # type: ignore[arg-type]


def test_without_kills_nothing_is_sent_twice() -> None:
    assert allowance(SCRIPT, history()) == 0


def test_costs_add_up() -> None:
    assert allowance(SCRIPT, history(carried(), carried(at=30.0))) == 2 * (FLIGHT + SEGMENT)


@pytest.mark.parametrize(
    ("outage", "seconds"),
    [(Outage(4.0, 9.0), 5), (Outage(8.0, 20.0), 2), (Outage(11.0, 20.0), 0), (Outage(-90.0, -80.0), 0)],
)
def test_a_storage_that_is_away_lengthens_a_segment(outage: Outage, seconds: int) -> None:
    assert allowance(SCRIPT, history(carried(), storage_outages=(outage,))) == FLIGHT + SEGMENT + 8 * seconds


@pytest.mark.parametrize(
    ("action", "cost"),
    [
        (Action.SUSPEND, 2 * FLIGHT),
        (Action.RESUME, 0),
        (Action.CANCEL, 2 * FLIGHT),
        (Action.APPLY_AGAIN, 2 * (FLIGHT + SEGMENT)),
    ],
)
def test_the_cost_of_a_step(action: Action, cost: int) -> None:
    assert allowance(SCRIPT, history(steps=(Taken("job", action, 5.0), Taken("other", action, 5.0)))) == cost


def test_one_that_has_ended_has_no_workers_that_lose_anything() -> None:
    assert allowance(SCRIPT, history(steps=(Taken("job", Action.APPLY_AGAIN, 5.0, live=False),))) == 0


def test_a_worker_that_can_not_write_before_it_leaves_loses_a_segment() -> None:
    asked = history(steps=(Taken("job", Action.SUSPEND, 10.0),), storage_outages=(Outage(12.0, 15.0),))
    assert allowance(SCRIPT, asked) == 2 * (FLIGHT + 8 * (5 + 3))
