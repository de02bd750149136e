"""The comparison finds what differs, and nothing else."""

from typing import Any

import pytest

from vllm.shapes.comparison import differences, unmeant

ANSWER: dict[str, Any] = {
    "object": "list",
    "data": [{"index": 0, "value": 1.5}, {"index": 1, "value": None}],
    "error": {"message": "at most 5 tokens", "code": 400},
    "top_logprobs": [{"a": -1.0}],
}


@pytest.mark.parametrize(
    "same",
    [
        ANSWER,
        ANSWER | {"data": [{"index": 1, "value": None}, {"index": 0, "value": 2.0}]},
        ANSWER | {"error": {"message": "at most 17 tokens", "code": 400}},
        ANSWER | {"top_logprobs": [{"b": -2.0, "c": -3.0}]},
    ],
)
def test_values_order_numbers_and_keys_that_are_data_may_differ(same: dict[str, Any]) -> None:
    assert differences(ANSWER, same) == []


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (ANSWER | {"more": 1}, "more"),
        ({name: value for name, value in ANSWER.items() if name != "object"}, "object"),
        (ANSWER | {"object": "response"}, "object"),
        (ANSWER | {"data": [{"index": 0, "value": 1.5}]}, "data[].index"),
        (ANSWER | {"data": [{"index": 0, "value": 1}, {"index": 1, "value": None}]}, "data[].value"),
        (ANSWER | {"error": {"message": "too many tokens", "code": 400}}, "error.message"),
        (ANSWER | {"error": {"message": "at most 5 tokens", "code": 404}}, "error.code"),
        (ANSWER | {"error": "at most 5 tokens"}, "error"),
        (ANSWER | {"top_logprobs": [{"a": -1}]}, "top_logprobs[].*"),
        (ANSWER | {"data": []}, "data[]"),
    ],
)
def test_members_types_and_words_may_not(other: dict[str, Any], path: str) -> None:
    assert path in [difference.path for difference in differences(ANSWER, other)]


def test_what_is_meant_covers_what_is_below_it() -> None:
    found = differences(ANSWER, ANSWER | {"data": None, "object": "response"})
    assert [difference.path for difference in unmeant(found, {"data": "because"})] == ["object"]


def test_a_reason_without_a_difference_is_out_of_date() -> None:
    with pytest.raises(AssertionError, match=r"the same: \['object'\]"):
        unmeant([], {"object": "because"})
