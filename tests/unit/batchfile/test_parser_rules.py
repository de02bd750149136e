"""What is a line, and what is JSON, to the plan."""

import json
import sys
from typing import Any

import pytest

from batchwright.batchfile.lines import BYTE_ORDER_MARK
from batchwright.batchfile.request_line import ENVELOPE_BYTES
from unit.batchfile.builders import (
    MAX_BODY_BYTES,
    check,
    encode,
    errors_of,
    found,
    good_line,
    input_of,
    request,
)

PLACEHOLDER = "@"
GOOD, LIKE_IT = good_line("first"), good_line("second")
INVALID = "invalid_json_line"


def line_with(raw: bytes, *, custom_id: str = "it", **changes: Any) -> bytes:
    """A request in which raw JSON stands for the value `@`."""
    return encode(request(custom_id, **changes)).replace(b'"@"', raw)


PLACES: dict[str, dict[str, Any]] = {
    "parameter": {"body__temperature": PLACEHOLDER},
    "content of a message": {"body__messages": [{"role": "user", "content": PLACEHOLDER}]},
    "unknown field of a message": {"body__messages": [{"role": "user", "content": "x", "weight": PLACEHOLDER}]},
    "deep in the body": {"body__tools": [{"function": {"parameters": {"properties": {"x": [PLACEHOLDER]}}}}]},
    "unknown field of the envelope": {"priority": PLACEHOLDER},
    "deep in the envelope": {"extra": {"list": [1, {"x": PLACEHOLDER}]}},
}

NOT_JSON = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "minus Infinity": b"-Infinity",
    "1e400": b"1e400",
    "1E+400": b"1E+400",
    "minus 1e400": b"-1e400",
    "1e00400": b"1e00400",
    "a number of 400 digits and a fraction": b"9" * 400 + b".5",
    "an integer too long to read": b"9" * 5000,
    "high surrogate alone": rb'"\ud83d"',
    "low surrogate alone": rb'"\ude00"',
    "surrogates in the wrong order": rb'"\ude00\ud83d"',
    "high surrogate before a letter": rb'"\ud83dx"',
    "invalid UTF-8": b'"\xff"',
    "UTF-8 that was cut": b'"\xe2\x82"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "surrogate in UTF-8": b'"\xed\xa0\xbd"',
    "UTF-8 past the last character": b'"\xf5\x80\x80\x80"',
    "invalid UTF-8 in a name": b'{"\xff":1}',
    "lone surrogate in a name": rb'{"\ud83d":1}',
    "Latin-1": b'"caf\xe9"',
    "control character": b'"\x01"',
    "tab in a string": b'"\t"',
    "unknown escape": rb'"\q"',
    "single quotes": b"'x'",
    "leading zero": b"01",
    "leading plus": b"+1",
    "point at the end": b"1.",
    "comma at the end": b"[1,]",
    "comment": b"1/*x*/",
    "Python's None": b"None",
    "byte order mark": BYTE_ORDER_MARK + b"1",
    "form feed": b"\x0c1",
    "no-break space": b"\xc2\xa01",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_no_strict_json_is_refused_wherever_it_stands(raw: bytes, place: dict[str, Any]) -> None:
    # The third line has the place with another value, so that the fourth is checked as a line of a known shape too.
    lines = [GOOD, b"", line_with(b"0", custom_id="known", **place), line_with(raw, **place), LIKE_IT]
    assert found(input_of(*lines)) == [(4, INVALID, None)]


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_no_strict_json_is_refused_in_a_first_line(raw: bytes) -> None:
    assert found(input_of(line_with(raw, body__seed=PLACEHOLDER), LIKE_IT)) == [(1, INVALID, None)]


STRINGS_OF_THE_ENVELOPE = [name for name in NOT_JSON if NOT_JSON[name].startswith(b'"')]


@pytest.mark.parametrize("field", ["custom_id", "method", "url", "body__model"])
@pytest.mark.parametrize("name", STRINGS_OF_THE_ENVELOPE)
def test_what_is_no_strict_json_is_refused_in_fields_that_are_read(name: str, field: str) -> None:
    line = line_with(NOT_JSON[name], **{field: PLACEHOLDER}) if field != "custom_id" else line_with(b"")
    line = line if field != "custom_id" else encode(request(PLACEHOLDER)).replace(b'"@"', NOT_JSON[name])
    assert found(input_of(GOOD, line, LIKE_IT)) == [(2, INVALID, None)]


GOOD_JSON = {
    "pair of surrogates": rb'"\ud83d\ude00"',
    "escaped backslash before u": rb'"\\ud83d"',
    "U+2028, U+2029, U+0085 raw": '"\u2028\u2029\u0085"'.encode(),
    "U+2028 escaped": rb'"\u2028"',
    "NUL escaped": rb'"\u0000"',
    "DEL": b'"\x7f"',
    "emoji raw": '"🙂"'.encode(),
    "number that underflows": b"1e-400",
    "largest float": b"1.7976931348623157e308",
    "negative zero": b"-0",
    "long integer": b"9" * 400,
    "long fraction": b"0." + b"3" * 400,
    "the words NaN and 1e400": b'"NaN 1e400"',
    "empty object": b"{}",
    "names that are a number, empty, and with quotes": rb'{"0":1,"":2,"a\"b":3,"a\\b":4}',
    "white space between tokens": b"[ 1 ,\t2\r]",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("raw", GOOD_JSON.values(), ids=GOOD_JSON)
def test_unusual_json_is_taken(raw: bytes, place: dict[str, Any]) -> None:
    lines = [GOOD, *(line_with(raw, custom_id=str(number), **place) for number in range(3)), LIKE_IT]
    validator = check(input_of(*lines))
    assert (validator.errors.listed, validator.index.requests) == ([], 5)


def test_lines_end_at_the_line_feed_alone() -> None:
    text = "a\u2028b\u2029c\u0085d"
    lines = [request(str(number), body__messages=[{"role": "user", "content": text}]) for number in range(3)]
    data = input_of(*lines)
    assert len(data.decode().splitlines()) == 12, "a reader that cuts at these would see more lines"
    validator = check(data)
    assert (validator.errors.listed, validator.requests, validator.index.lines) == ([], 3, 3)


def test_a_carriage_return_before_the_line_feed_is_white_space() -> None:
    data = input_of(good_line("a"), b"", good_line("b"), b"x", good_line("c")).replace(b"\n", b"\r\n")
    assert found(data) == [(4, INVALID, None)]
    assert check(data).index.requests == 3


def test_a_carriage_return_alone_ends_no_line() -> None:
    assert found(good_line("a") + b"\r" + good_line("b")) == [(1, INVALID, None)]


def test_a_byte_order_mark_at_the_beginning_is_dropped() -> None:
    data = BYTE_ORDER_MARK + input_of(good_line("a"), good_line("b"))
    validator = check(data)
    assert (validator.errors.listed, validator.requests) == ([], 2)
    assert [(shard.start, shard.end, shard.first_line) for shard in validator.index.shards(2)] == [(3, len(data), 1)]


def test_only_one_byte_order_mark_is_dropped() -> None:
    assert found(BYTE_ORDER_MARK * 2 + GOOD) == [(1, INVALID, None)]


def test_a_byte_order_mark_on_a_later_line_is_an_error() -> None:
    assert found(input_of(GOOD, BYTE_ORDER_MARK + LIKE_IT)) == [(2, INVALID, None)]


@pytest.mark.parametrize("blank", [b"", b" ", b"\t", b"\r", b" \t \r"])
def test_blank_lines_are_passed_over_and_counted(blank: bytes) -> None:
    data = input_of(blank, good_line("a"), blank, blank, b"x", blank, good_line("a"))
    assert found(data) == [(5, INVALID, None), (7, "duplicate_custom_id", "custom_id")]


@pytest.mark.parametrize("line", [b"\x0b", b"\x0c", b"\xc2\xa0", b"\xc2\x85", b"\x00", "\u2028".encode()])
def test_other_white_space_is_not_blank(line: bytes) -> None:
    assert found(input_of(GOOD, line)) == [(2, INVALID, None)]


def test_the_last_line_needs_no_end() -> None:
    data = input_of(good_line("a"), good_line("b")).removesuffix(b"\n")
    validator = check(data)
    assert (validator.errors.listed, validator.requests) == ([], 2)
    assert validator.index.shards(1, len(data))[-1].end == len(data)


def test_a_bad_last_line_without_an_end_is_an_error() -> None:
    assert found(input_of(GOOD) + b"{") == [(2, INVALID, None)]


@pytest.mark.parametrize("data", [b"", b"\n", b"\n \n\r\n", BYTE_ORDER_MARK, BYTE_ORDER_MARK + b"\n"])
def test_a_file_without_a_request_has_none(data: bytes) -> None:
    validator = check(data)
    assert (validator.requests, validator.errors.count, validator.index.shards(1)) == (0, 0, [])


@pytest.mark.parametrize("opening", [b"[", b'{"x":'])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_nesting_that_is_too_deep_is_an_error_of_the_line(place: dict[str, Any], opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * 100_000 + b"1" + closing * 100_000
    assert found(input_of(GOOD, line_with(deep, **place), LIKE_IT)) == [(2, INVALID, None)]


def test_nesting_that_never_ends_is_an_error_of_the_line() -> None:
    assert found(input_of(GOOD, b"[" * 1_000_000, LIKE_IT)) == [(2, INVALID, None)]


@pytest.mark.parametrize("letter", ["x", "é", "語", "🙂"])
def test_an_id_of_512_characters_is_taken_and_one_of_513_is_not(letter: str) -> None:
    lines = [request(letter * 512), request("-" + letter * 511), request(letter * 513)]
    for ascii_only in (False, True):
        data = input_of(*(json.dumps(line, ensure_ascii=ascii_only).encode() for line in lines))
        assert found(data) == [(3, "invalid_request", "custom_id")]


def line_with_body_of(size: int, custom_id: str = "big") -> bytes:
    """A line whose body has exactly so many bytes."""
    small = request(custom_id, body__messages=[{"role": "user", "content": ""}])
    text = "x" * (size - len(encode(small["body"])))
    line = request(custom_id, body__messages=[{"role": "user", "content": text}])
    assert len(encode(line["body"])) == size
    return encode(line)


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    data = input_of(GOOD, line_with_body_of(MAX_BODY_BYTES), LIKE_IT)
    validator = check(data)
    assert (validator.errors.listed, validator.index.requests) == ([], 3)


def test_a_body_of_one_byte_more_is_refused_with_size_and_limit() -> None:
    (error,) = errors_of(input_of(GOOD, line_with_body_of(MAX_BODY_BYTES + 1), LIKE_IT))
    assert (error.line, error.code, error.param) == (2, "invalid_request", "body")
    assert error.message == "The request body has 10485761 bytes; the limit is 10485760."


def test_the_envelope_does_not_count() -> None:
    line = line_with_body_of(1000, "x" * 500)
    spaces = line.replace(b'"method"', b" " * 600 + b'"method"')
    assert found(input_of(GOOD, spaces), max_body_bytes=1000) == []


def test_a_large_body_is_checked_for_everything_else_too() -> None:
    line = line_with_body_of(1001).replace(b'"qwen"', b'"lama"')
    assert found(input_of(GOOD, line), max_body_bytes=1000) == [
        (2, "invalid_request", "body"),
        (2, "mismatched_model", "body.model"),
    ]


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 1 << 20, 1 << 26])
def test_an_oversize_line_is_an_error_and_reading_goes_on(chunk_bytes: int) -> None:
    long = b"x" * (MAX_BODY_BYTES + ENVELOPE_BYTES + 1)
    data = input_of(GOOD, long, b"", b"x", LIKE_IT)
    first, second = errors_of(data, chunk_bytes=chunk_bytes)
    assert (first.line, first.code, first.param) == (2, "invalid_request", "body")
    assert first.message == "The line has 11534337 bytes; the limit for a request body is 10485760."
    assert (second.line, second.code) == (4, INVALID)
    assert check(data, chunk_bytes=chunk_bytes).requests == 4


def test_an_oversize_last_line_without_an_end_is_an_error() -> None:
    data = input_of(GOOD) + b"x" * (2000 + ENVELOPE_BYTES)
    assert found(data, max_body_bytes=1000) == [(2, "invalid_request", "body")]


class TestNamesThatStandTwice:
    """JSON leaves it open what they mean. The last one counts, as it does for the server (Python's json)."""

    def test_the_last_one_counts(self) -> None:
        line = good_line("b").replace(b'"custom_id": "b"', b'"custom_id": "x", "custom_id": "b"')
        stream = good_line("c").replace(b'"model"', b'"stream": true, "stream": false, "model"')
        assert found(input_of(good_line("a"), line, stream, good_line("x"))) == []

    def test_a_wrong_last_one_is_found(self) -> None:
        line = good_line("b").replace(b'"model"', b'"stream": false, "stream": true, "model"')
        messages = good_line("c")[:-2] + b', "messages": null}}'
        assert found(input_of(good_line("a"), line, messages)) == [
            (2, "streaming_unsupported", "body.stream"),
            (3, "invalid_request", "body.messages"),
        ]

    def test_ids_that_are_equal_in_their_last_one_are_duplicates(self) -> None:
        line = good_line("b").replace(b'"custom_id": "b"', b'"custom_id": "x", "custom_id": "a"')
        assert found(input_of(good_line("a"), line)) == [(2, "duplicate_custom_id", "custom_id")]

    def test_a_field_that_was_wrong_and_then_right_is_right(self) -> None:
        line = good_line("b").replace(b'"custom_id": "b"', b'"custom_id": 5, "custom_id": "b"')
        assert found(input_of(good_line("a"), line)) == []


def test_fields_in_any_order_and_names_with_escapes_are_the_same_fields() -> None:
    line = dict(reversed(request("b").items()))
    escaped = good_line("c").replace(b'"model"', rb'"mod\u0065l"').replace(b'"body"', rb'"b\u006fdy"')
    validator = check(input_of(good_line("a"), line, escaped))
    assert (validator.errors.listed, validator.index.requests) == ([], 3)


def test_deep_but_reasonable_nesting_is_taken() -> None:
    value: Any = 1
    for _ in range(min(100, sys.getrecursionlimit() // 4)):
        value = {"properties": [value]}
    assert found(input_of(GOOD, request("b", body__tools=value), request("c", body__tools=value))) == []
