"""What is read of a server's answer."""

import json
from typing import Any

import pytest

from batchwright.batchfile.answer import MAX_COUNT, Reading, read_answer
from batchwright.batchfile.counts import Usage

MESSAGE = {"role": "assistant", "content": "Hello"}
CHAT_USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
FULL = Usage(input_tokens=10, cached_tokens=4, output_tokens=5, reasoning_tokens=2, total_tokens=15)

ANSWERS: dict[str, tuple[dict[str, Any], Reading]] = {
    "chat": (
        {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}], "usage": CHAT_USAGE},
        Reading(FULL, ("stop",)),
    ),
    "chat with several choices": (
        {"choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}]},
        Reading(Usage(), ("stop", "length")),
    ),
    "chat that the server aborted": ({"choices": [{"finish_reason": "abort"}]}, Reading(Usage(), ("abort",))),
    "chat without an end": ({"choices": [{"finish_reason": None}]}, Reading(Usage(), ("null",))),
    "a server without finish reasons": ({"choices": [{"text": "x"}]}, Reading(Usage(), ())),
    "completions": (
        {"choices": [{"text": "x", "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "total_tokens": 2}},
        Reading(Usage(input_tokens=1, total_tokens=2), ("length",)),
    ),
    "embeddings": (
        {"data": [{"embedding": [0.5, -1e-9]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}},
        Reading(Usage(input_tokens=3, total_tokens=3), ()),
    ),
    "responses": (
        {
            "status": "completed",
            "output": [],
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 15,
            },
        },
        Reading(FULL, ("completed",)),
    ),
    "responses that was cut": (
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        Reading(Usage(), ("max_output_tokens",)),
    ),
    "no usage": ({"choices": []}, Reading(Usage(), ())),
    "null usage": ({"usage": None, "choices": None}, Reading(Usage(), ())),
    "usage in part": (
        {"usage": {"completion_tokens": 0, "prompt_tokens_details": None}},
        Reading(Usage(output_tokens=0), ()),
    ),
    "an empty object": ({}, Reading(Usage(), ())),
}


@pytest.mark.parametrize(("answer", "reading"), ANSWERS.values(), ids=ANSWERS)
def test_usage_and_finish_reasons(answer: dict[str, Any], reading: Reading) -> None:
    assert read_answer(json.dumps(answer).encode()) == reading
    assert read_answer(json.dumps(answer, indent=2).encode() + b"\r\n") == reading


ODD: dict[str, tuple[dict[str, Any], Reading]] = {
    "usage that is a list": (
        {"usage": [1], "choices": [{"finish_reason": "abort"}]},
        Reading(Usage(), ("abort",)),
    ),
    "a count that is a word": (
        {"usage": {"prompt_tokens": "many"}, "choices": [{"finish_reason": None}]},
        Reading(Usage(), ("null",)),
    ),
    "choices that are no list": (
        {"choices": {"0": {}}, "usage": CHAT_USAGE},
        Reading(FULL, ()),
    ),
    "one odd choice": (
        {"choices": [1, {"finish_reason": 7}, {"finish_reason": "length"}], "usage": CHAT_USAGE},
        Reading(FULL, ("length",)),
    ),
    "a status that is a number": ({"status": 200, "usage": CHAT_USAGE}, Reading(FULL, ())),
    "counts below zero": (
        {"usage": {"prompt_tokens": -1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -5}}},
        Reading(Usage(output_tokens=2), ()),
    ),
    "counts beyond what a whole number in JSON can be": (
        {"usage": {"prompt_tokens": MAX_COUNT, "completion_tokens": MAX_COUNT + 1, "total_tokens": 2**63 - 1}},
        Reading(Usage(input_tokens=MAX_COUNT), ()),
    ),
    "the greatest count, beside one too great": (
        {"usage": {"input_tokens": MAX_COUNT, "output_tokens": 2**63, "total_tokens": 7}},
        Reading(Usage(input_tokens=MAX_COUNT, total_tokens=7), ()),
    ),
    "details that are no object": (
        {"status": "incomplete", "incomplete_details": "x"},
        Reading(Usage(), ("incomplete",)),
    ),
}


@pytest.mark.parametrize(("answer", "reading"), ODD.values(), ids=ODD)
def test_an_odd_part_is_unknown_and_the_others_count(answer: dict[str, Any], reading: Reading) -> None:
    assert read_answer(json.dumps(answer).encode()) == reading


BAD = {
    "empty": (b"", "the answer is empty"),
    "white space": (b" \n", "the answer is empty"),
    "cut": (b'{"choices":[{"finish_reason":"st', "no whole JSON"),
    "cut behind what is read": (b'{"usage":{"total_tokens":1},"x":"', "no whole JSON"),
    "HTML": (b"<html>", "no whole JSON"),
    "more behind it": (b"{}{}", "no whole JSON"),
    "a server-sent event": (b"data: {}\n\n", "no whole JSON"),
    "NaN": (b'{"logprobs":NaN}', "no whole JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "no whole JSON"),
    "an array": (b"[]", "no JSON object"),
    "a string": (b'"x"', "no JSON object"),
    "null": (b"null", "no JSON object"),
    "invalid UTF-8 in what is not read": (b'{"text":"\xff"}', "not valid UTF-8"),
    "nested too deep": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "no whole JSON"),
    "a raw line break in a string": (b'{"text":"a\nb"}', "no whole JSON"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_what_is_no_whole_json_object_is_no_answer(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_answer(body)
