"""The report says what was done and what was wrong, and stands between its marks."""

import pytest

from chaos.records import Carried, History
from chaos.report import BEGIN, END, insert, report
from chaos.round import Round
from chaos.script import Manner, Schedule, Target
from fixtures.chaos import carried, history, kill, outcome, script


def a_round(happened: History, *violations: str) -> Round:
    one = script()
    twice = {one.identity(number): 2 if number == 0 else 1 for number in range(one.lines)}
    return Round(Schedule(7, (one,), ()), happened, (outcome(one, arrived=twice),), violations)


KILLS = history(
    carried(recovered=10.0),
    carried(recovered=20.0),
    carried(recovered=None),
    carried(Target.OPERATOR, workers={}, recovered=4.0),
)


def test_it_counts_lines_requests_and_kills() -> None:
    text = report(a_round(KILLS), "make chaos ARGS='--seed 7'")
    assert "`make chaos ARGS='--seed 7'`: 1 BatchJobs and 4 kills in 1 minutes." in text
    assert "| lines of the inputs that were run | 6 |" in text
    assert "| **lines lost** | **0** |" in text
    assert "| **lines doubled** | **0** |" in text
    assert "| times that they reached it | 7 |" in text
    assert "| sent again | 1 (16.7%) |" in text
    assert "| sent again at most, by what the kills can cost | 252 |" in text
    assert "| worker | 3 | 3 × SIGKILL |  | 15 s | 20 s |" in text
    assert "| operator | 1 | 1 × SIGKILL |  | 4 s | 4 s |" in text
    assert "| plain | 1 | completed |" in text


def test_it_says_for_how_long_something_was_away() -> None:
    away = [
        Carried(kill(Target.API_SERVER, Manner.HANG, seconds=seconds), 1.0, "API server", {}, seconds + 1)
        for seconds in (30.0, 12.0)
    ]
    assert "| API server | 2 | 2 × hangs | 12 to 30 s | 22 s | 31 s |" in report(a_round(history(*away)), "c")


def test_it_shows_what_was_wrong() -> None:
    text = report(a_round(KILLS, "job: 1 lines are lost: job-5"), "c")
    assert "- **wrong**: job: 1 lines are lost: job-5" in text
    assert "| BatchJobs in a wrong state, with wrong counts or lines | 1 |" in text


def test_it_replaces_the_one_before_and_nothing_else() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert insert(insert(document, "new"), "newer") == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks the lines"):
        insert("nothing", "new")
