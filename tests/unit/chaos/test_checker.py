"""The checker finds whatever is wrong with what a BatchJob published; a checker that finds nothing proves nothing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from chaos.checker import Outcome, violations
from chaos.records import Taken
from chaos.script import Action, Kind
from fixtures.chaos import history, outcome, refused_line, result_line, script, undone_line

REFUSING = script(Kind.REFUSALS, refused=frozenset({1, 4}))
CANCELLED = history(steps=(Taken("job", Action.CANCEL, 5.0),))


def changed(of: Outcome, **lines: list[bytes]) -> Outcome:
    """With other lines, and a status that agrees with them."""
    counts = {"results": "completed", "errors": "failed"}
    names = {"results": "output", "errors": "errors", "retry": "retry"}
    status: dict[str, Any] = json.loads(json.dumps(of.status))
    for kind, some in lines.items():
        status[names[kind]] = {"lines": len(some), "bytes": sum(len(line) + 1 for line in some)}
        if kind in counts:
            status["requestCounts"][counts[kind]] = len(some)
    return replace(of, status=status, **lines)  # type: ignore[arg-type]


def found(of: Outcome, *, twice: int = 0, cancelled: bool = False) -> str:
    return "\n".join(violations(of, CANCELLED if cancelled else history(), twice))


@pytest.mark.parametrize(
    ("good", "cancelled"),
    [
        (outcome(script()), False),
        (outcome(REFUSING), False),
        (outcome(script(Kind.CANCEL), "cancelled", done=4), True),
        (outcome(script(Kind.CANCEL, refused=frozenset({1, 5})), "cancelled", done=4), True),
        (outcome(script(Kind.CANCEL), "cancelled", done=0), True),
        (outcome(script(Kind.CANCEL), "completed"), True),
        (outcome(script(Kind.EXPIRY), "expired", done=3, code="batch_expired"), False),
        (Outcome(script(Kind.INVALID), {"phase": "failed", "conditions": [
            {"type": "Failed", "status": "True", "reason": "InvalidInput"}]}, [], [], [], {}), False),
        (Outcome(script(Kind.CANCEL), {"phase": "cancelled"}, [], [], [], {}), True),
    ],
)  # fmt: skip
def test_what_is_right_is_not_found_fault_with(good: Outcome, cancelled: bool) -> None:
    assert found(good, cancelled=cancelled) == ""


def test_a_lost_line() -> None:
    good = outcome(script())
    bad = changed(good, results=list(good.results[:-1]))
    assert "1 lines are lost: job-5" in found(bad)
    assert bad.lost == 1


def test_a_line_in_both_files() -> None:
    good = outcome(REFUSING)
    bad = changed(good, results=[*good.results[:1], result_line(REFUSING, 1), *good.results[1:]])
    assert "1 lines are doubled or unknown: job-1" in found(bad)
    assert bad.doubled == 1


def test_a_line_of_nobody() -> None:
    good = outcome(script())
    bad = changed(good, results=[*good.results, result_line(script(name="other"), 0)])
    assert "doubled or unknown: other-0" in found(bad)


@pytest.mark.parametrize("kind", ["results", "errors"])
def test_lines_out_of_order(kind: str) -> None:
    good = outcome(REFUSING)
    bad = changed(good, **{kind: list(reversed(getattr(good, kind)))})
    assert f"{kind} are not in the order of the input" in found(bad)


def test_the_answer_to_another_line() -> None:
    good = outcome(script())
    strange = json.loads(result_line(script(), 3)) | {"custom_id": "job-2"}
    bad = changed(good, results=[*good.results[:2], json.dumps(strange).encode(), *good.results[3:]])
    assert "1 wrong answers" in found(bad)


def test_an_error_where_there_is_an_answer() -> None:
    one = script()
    good = outcome(one)
    line = one.input_lines()[5]
    bad = changed(good, results=list(good.results[:5]), errors=[undone_line(one, 5, "worker_failed")], retry=[line])
    assert "1 wrong errors" in found(bad)
    assert "1 requests failed, though the server refused 0" in found(bad)


def test_an_undone_line_in_a_batchjob_that_completed() -> None:
    one = script()
    good = outcome(one)
    bad = changed(good, results=list(good.results[:5]), errors=[undone_line(one, 5)], retry=[one.input_lines()[5]])
    assert "1 wrong errors" in found(bad)


def test_a_refused_line_under_the_code_of_the_stop_is_one_that_was_not_sent() -> None:
    one = script(Kind.CANCEL, refused=frozenset({5}))
    assert found(outcome(one, "cancelled", done=4), cancelled=True) == ""


def test_lines_to_retry_that_are_not_those_that_failed() -> None:
    good = outcome(REFUSING)
    assert "1 lines to retry are not those of the 2" in found(changed(good, retry=list(good.retry[:1])))
    assert "2 lines to retry are not those" in found(changed(good, retry=list(reversed(good.retry))))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"requestCounts": {"total": 6, "completed": 5, "failed": 2}}, "the counts are"),
        ({"errorCodes": {"400": 1}}, "the error codes are"),
        ({"output": {"lines": 4, "bytes": 1}}, "status.output says"),
        ({"retry": None}, "status.retry says"),
    ],
)
def test_a_status_that_is_not_exact(change: dict[str, Any], says: str) -> None:
    good = outcome(REFUSING)
    assert says in found(replace(good, status={**good.status, **change}))


def test_a_wrong_end() -> None:
    assert "ended as cancelled, not as completed" in found(outcome(script(), "cancelled", done=4))
    assert "ended as nothing" in found(outcome(script(), ""))


def test_a_cancel_that_was_never_asked_for() -> None:
    assert "ended as cancelled" in found(outcome(script(Kind.CANCEL), "cancelled", done=4))


def test_a_failure_for_another_reason() -> None:
    failed = {"phase": "failed", "conditions": [{"type": "Failed", "status": "True", "reason": "RunFailed"}]}
    assert "failed with RunFailed, not InvalidInput" in found(Outcome(script(Kind.INVALID), failed, [], [], [], {}))


def test_more_sent_twice_than_kills_can_cost() -> None:
    bad = outcome(script(), arrived={"job-0": 3, "job-1": 2})
    assert "3 requests were sent again, 2 at most may be" in found(bad, twice=2)
    assert found(bad, twice=3) == ""


def test_requests_or_lines_of_a_batchjob_without_a_plan() -> None:
    without = {"phase": "cancelled"}
    one = script(Kind.CANCEL)
    sent = Outcome(one, without, [], [], [], {"job-0": 1})
    assert "1 requests were sent by a BatchJob without a plan" in found(sent, cancelled=True)
    published = Outcome(one, without, [], [refused_line(one, 0)], [], {})
    assert "lines were published by a BatchJob without a plan" in found(published, cancelled=True)
