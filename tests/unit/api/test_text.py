"""Text and counts from elsewhere, made fit for a status."""

import pytest
from pydantic import TypeAdapter

from batchwright.api.text import CountsByName, Message, cut, encodable, fold_counts
from batchwright.api.undone import Undone


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 1, "…"), ("abcd", 0, ""), ("", 0, ""), ("漢字漢字", 3, "漢字…")],
)
def test_a_cut_text_ends_in_an_ellipsis(text: str, length: int, expected: str) -> None:
    assert cut(text, length) == expected


def test_a_message_is_cut_and_not_refused() -> None:
    message = TypeAdapter(Message).validate_python("x" * 5000)
    assert len(message) == 2048
    assert message.endswith("x…")


def test_a_lone_surrogate_is_shown_as_its_escape() -> None:
    assert encodable("id \ud83d!") == r"id \ud83d!"
    assert TypeAdapter(Message).validate_python("\ud83d").encode()


def test_the_most_frequent_names_come_first() -> None:
    assert list(fold_counts({"length": 2, "stop": 9, "tool_calls": 2}).items()) == [
        ("stop", 9),
        ("length", 2),
        ("tool_calls", 2),
    ]


def test_the_rare_ones_are_added_up_under_other() -> None:
    folded = fold_counts({f"reason-{n}": n for n in range(1, 31)})
    assert len(folded) == 16
    assert folded["reason-30"] == 30
    assert folded["other"] == sum(range(1, 16))


@pytest.mark.parametrize("code", Undone)
def test_what_never_ran_is_counted_by_its_own_name_however_rare_it_is(code: Undone) -> None:
    folded = fold_counts({f"reason-{n:02}": 10 + n for n in range(30)} | {code.value: 1})
    assert len(folded) == 16
    assert folded[code.value] == 1
    assert folded["other"] == sum(10 + n for n in range(16))


@pytest.mark.parametrize("name", ["", "x" * 41, "with space", "漢", "\x00", "line\nbreak", "\ud83d"])
def test_a_name_that_is_not_plain_counts_as_other(name: str) -> None:
    assert fold_counts({"stop": 1, name: 2}) == {"stop": 1, "other": 2}


def test_counts_are_folded_where_a_model_takes_them() -> None:
    assert TypeAdapter(CountsByName).validate_python({"stop": 1, "a b": 2, "other": 3}) == {"stop": 1, "other": 5}
