"""The tables that the reference and the CEL rules are made from are complete."""

from batchwright.api.changes import Effect, change_of
from batchwright.api.conditions import (
    CONDITION_MEANINGS,
    REASON_MEANINGS,
    ConditionType,
    Reason,
)
from batchwright.api.exit_codes import EXIT_CODE_MEANINGS, FINAL_EXIT_CODES, ExitCode
from batchwright.api.undone import UNDONE_MEANINGS, UNDONE_MESSAGES, Undone


def test_every_reason_stands_under_a_condition() -> None:
    assert {reason for reasons in REASON_MEANINGS.values() for reason in reasons} == set(Reason)
    assert REASON_MEANINGS.keys() == set(ConditionType)


def test_every_condition_and_exit_code_is_explained() -> None:
    assert CONDITION_MEANINGS.keys() == set(ConditionType)
    assert EXIT_CODE_MEANINGS.keys() == set(ExitCode)


def test_every_code_of_an_undone_request_is_explained() -> None:
    assert UNDONE_MEANINGS.keys() == UNDONE_MESSAGES.keys() == set(Undone)


def test_reasons_are_words_that_a_condition_may_bear() -> None:
    assert [reason for reason in Reason if not reason.isalpha() or not reason[0].isupper()] == []


def test_an_interruption_and_a_passing_failure_are_not_final() -> None:
    assert {ExitCode.DONE, ExitCode.UNEXPECTED, ExitCode.INTERRUPTED}.isdisjoint(FINAL_EXIT_CODES)
    assert {*FINAL_EXIT_CODES, ExitCode.DONE, ExitCode.UNEXPECTED, ExitCode.INTERRUPTED} == set(ExitCode)


def test_exit_codes_are_not_those_of_shells_and_signals() -> None:
    """126 and more are a shell's and a signal's; 2 is Python's for wrong arguments."""
    assert [code for code in ExitCode if code == 2 or code > 125] == []


def test_the_longest_path_decides_when_a_change_is_read() -> None:
    fixed, connection = change_of("input.uri"), change_of("input.storage.region")
    assert fixed is not None
    assert connection is not None
    assert fixed.effect is Effect.NEVER
    assert connection.effect is Effect.NEXT_POD
    assert change_of("inputs") is None
