"""Laws of the batch file format, over lines, inputs and answers of every kind."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any, NoReturn

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from batchwright.api.batchjob import MAX_SHARDS
from batchwright.batchfile.answer import read_answer
from batchwright.batchfile.counts import Usage, add_counts, sum_usage
from batchwright.batchfile.lines import BYTE_ORDER_MARK, LINES_AT_ONCE, OversizeLine, split_lines
from batchwright.batchfile.plan_record import Shard
from batchwright.batchfile.request_line import read_object, read_request
from batchwright.batchfile.result_line import (
    error_body,
    failure_line,
    in_one_line,
    read_finished_line,
    result_line,
    without_lone_surrogates,
)
from batchwright.batchfile.sharding import ceil_divide, choose_lines_per_shard
from batchwright.batchfile.validation import Validator
from unit.batchfile.builders import CHAT, MAX_BODY_BYTES, MODEL, check, encode, good_line, request

SEPARATORS = "\u2028\u2029\u0085\x1c\x1d\x1e\x0b\x0c\r\n"
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(SEPARATORS + '"\\/u'), max_size=20)
NAMES = st.sampled_from(["role", "content", "name", "type", "é", "", "a b"]) | TEXTS
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


# --- Lines ---


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The data in chunks of any sizes, empty ones among them."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]


FILES = st.lists(st.sampled_from([b"\n", b"\n\n", b"\r\n", b"a", b"bcd", b"\xe2\x80\xa8", b" ", b"{}"]), max_size=40)


@given(st.data(), FILES.map(b"".join), st.integers(0, 12))
def test_cutting_into_lines_does_not_depend_on_chunks(data: st.DataObject, file: bytes, longest: int) -> None:
    lines = file.split(b"\n")
    if not lines[-1]:
        lines.pop()
    expected = [line if len(line) <= longest else OversizeLine(len(line)) for line in lines]
    lists = list(split_lines(data.draw(chunked(file)), longest))
    assert [line for some in lists for line in some] == expected
    assert all(1 <= len(some) <= LINES_AT_ONCE for some in lists)


# --- Shards ---


@st.composite
def inputs(draw: st.DrawFn) -> tuple[bytes, dict[str, int]]:
    """A good input with blank lines anywhere, and the number of each id's line."""
    mark = draw(st.sampled_from([b"", BYTE_ORDER_MARK]))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    kinds = draw(st.lists(st.sampled_from(["request", "request", "blank", "spaces"]), max_size=40))
    lines, numbers = [], {}
    for number, kind in enumerate(kinds, start=1):
        if kind == "request":
            lines.append(good_line(f"id-{number}", body__seed=10**number))
            numbers[f"id-{number}"] = number
        else:
            lines.append(b"" if kind == "blank" else b" \t")
    data = mark + b"".join(line + end for line in lines)
    return (data.removesuffix(end) if draw(st.booleans()) else data), numbers


@given(inputs(), st.integers(1, 50))
def test_shards_hold_every_request_once_in_order(made: tuple[bytes, dict[str, int]], lines_per_shard: int) -> None:
    data, numbers = made
    validator = check(data)
    shards = validator.index.shards(lines_per_shard, len(data))
    assert validator.errors.listed == []
    assert validator.requests == len(numbers)
    assert all(left.end == right.start for left, right in pairwise(shards))
    assert all(shard.lines == lines_per_shard for shard in shards[:-1])
    assert len(shards) == ceil_divide(len(numbers), lines_per_shard)
    found = [read_shard(data, shard) for shard in shards]
    assert [item for some in found for item in some] == list(numbers.items())


def read_shard(data: bytes, shard: Shard) -> list[tuple[str, int]]:
    """Ids and line numbers, read as a worker does."""
    assert 0 <= shard.start < shard.end <= len(data)
    assert data[shard.start : shard.start + 1] == b"{", "a shard begins with a request"
    assert data[shard.end - 1 : shard.end] == b"\n" or shard.end == len(data)
    lines = data[shard.start : shard.end].split(b"\n")
    found = [
        (read_request(line).custom_id, number)
        for number, line in enumerate(lines, start=shard.first_line)
        if line.strip()
    ]
    assert len(found) == shard.lines
    return found


@given(st.integers(1, 60_000_000), st.integers(1, 1000))
@example(20_000_000, 1000)
@example(19_900_000, 64)
@example(10_000_001, 997)
@example(499, 1)
def test_lines_for_each_shard_as_the_rule_has_it(lines: int, parallelism: int) -> None:
    chosen = choose_lines_per_shard(lines, parallelism)
    shards = ceil_divide(lines, chosen)
    assert 1 <= shards <= MAX_SHARDS
    fitting = [
        size
        for size in range(500, 2001)
        if ceil_divide(lines, size) % parallelism == 0 and ceil_divide(lines, size) <= MAX_SHARDS
    ]
    if fitting:
        assert chosen in fitting
        assert abs(chosen - 1000) == min(abs(size - 1000) for size in fitting)
    elif ceil_divide(lines, MAX_SHARDS) <= 500:
        assert chosen == ceil_divide(lines, parallelism)


@given(st.integers(1, 60_000_000), st.integers(1, 1000), st.integers(1, 10_000_000))
def test_a_wish_is_followed_unless_it_makes_too_many_shards(lines: int, parallelism: int, wanted: int) -> None:
    chosen = choose_lines_per_shard(lines, parallelism, wanted)
    assert chosen == wanted or (chosen > wanted and ceil_divide(lines, wanted) > MAX_SHARDS)
    assert ceil_divide(lines, chosen) <= MAX_SHARDS


# --- Checking ---


class NotStrictError(Exception):
    """What no strict reader takes."""


def refuse(text: str) -> NoReturn:
    raise NotStrictError(text)


def finite(text: str) -> float:
    return value if isfinite(value := float(text)) else refuse(text)


def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    repr(items).encode()
    json.dumps(items, ensure_ascii=False).encode()  # raises on half a surrogate pair, in names and values
    return dict(items)


STRICT = json.JSONDecoder(parse_constant=refuse, parse_float=finite, object_pairs_hook=pairs)


def strict_object(line: bytes) -> dict[str, Any] | None:
    """The rules of the parser, written with the standard library."""
    try:
        value = STRICT.decode(line.decode())
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, NotStrictError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


ODD_PARTS = st.sampled_from(
    [
        *[
            b"NaN",
            b"-Infinity",
            b"1e400",
            b"-1e999",
            b"1e-400",
            b"9" * 400,
            b"9" * 400 + b".0",
            b"01",
            b"1.",
            b"null",
            b"tru",
        ],
        *[
            rb"\ud83d",
            rb"\ude00",
            rb"\ud83d\ude00",
            rb"\\ud83d",
            rb"\q",
            rb"\u12",
            b"\xff",
            b"\xed\xa0\xbd",
            b"\xe2\x80\xa8",
        ],
        *[
            b"\x00",
            b"\x1f",
            b"\x7f",
            b"\t",
            b"\r",
            b'"',
            b"\\",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b" ",
            b"0",
            b"e",
            b"-",
        ],
        *[b'"stream":true,', b'"stream":false,', b'"model":null,', b'"custom_id":"b",', b'"x":{"y":[1,{"z":1e999}]},'],
    ]
)


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """The text with some places replaced: often no JSON any more, sometimes still."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 3))
        text = text[:start] + draw(ODD_PARTS | st.binary(max_size=2)) + text[end:]
    return text


@given(st.data(), OBJECTS)
def test_a_line_is_taken_exactly_when_it_is_strict_json(data: st.DataObject, value: dict[str, Any]) -> None:
    line = data.draw(damaged(json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()))
    assert read_object(line) == strict_object(line)


RAW_VALUES = st.sampled_from(
    [
        *rb'1e400 -1e400 NaN null true false 0 "x" "" "POST" "GET" []'.split(),
        *[b"[1e400]", b'[{"role":1e400}]', b'{"x":[{"y":1e400}]}'],
        *[b'"\xff"', b'{"\xff":1}', b'[{"\xff":1}]', rb'"\ud83d"', rb'"\ud83d\ude00"', b"9" * 400, b"9" * 400 + b".0"],
    ]
)
MESSAGES = st.lists(st.fixed_dictionaries({"role": TEXTS}, optional={"content": VALUES, "name": TEXTS}), max_size=3)
ENVELOPE = ["custom_id", "method", "url", "body", "extra"]
BODY = ["messages", "model", "stream", "temperature", "metadata"]


@st.composite
def good_requests(draw: st.DrawFn) -> dict[str, Any]:
    line = request(draw(TEXTS.filter(bool)), body__messages=draw(MESSAGES))
    line["body"] |= draw(st.dictionaries(st.sampled_from(BODY[3:]) | NAMES, VALUES, max_size=3))
    return line


@st.composite
def lines_like(draw: st.DrawFn, line: dict[str, Any]) -> bytes:
    """The line with one thing changed: any value at a place that counts, or some bytes."""
    if draw(st.booleans()):
        return draw(damaged(encode(line)))
    place, name = draw(st.sampled_from([("line", name) for name in ENVELOPE] + [("body", name) for name in BODY]))
    changed = {**line, name: "@@"} if place == "line" else {**line, "body": {**line["body"], name: "@@"}}
    return encode(changed).replace(b'"@@"', draw(RAW_VALUES))


@settings(max_examples=300)
@given(st.data(), st.lists(good_requests(), min_size=1, max_size=4))
def test_what_is_wrong_with_a_line_does_not_depend_on_those_before(
    data: st.DataObject, before: list[dict[str, Any]]
) -> None:
    """The decoder of lines of a known shape takes nothing that the check of each field would refuse."""
    line = data.draw(lines_like(data.draw(st.sampled_from(before))))
    assume(line.strip(b" \t\r") and b"\n" not in line)
    known = Validator(endpoint=CHAT, model=MODEL, max_body_bytes=MAX_BODY_BYTES)
    known.take([*map(encode, before), line.replace(b"1e400", b"1e4").replace(b"\xff", b"x")])
    errors, taken = known.errors.count, known.index.requests
    known.take([line])
    unknown = Validator(endpoint=CHAT, model=MODEL, max_body_bytes=MAX_BODY_BYTES)
    unknown.take([line])
    assert known.index.requests - taken == unknown.index.requests
    assert [(error.code, error.param, error.message) for error in known.errors.listed[errors:]] == [
        (error.code, error.param, error.message) for error in unknown.errors.listed
    ]
    assert bool(unknown.errors.count) != bool(unknown.index.requests)


@given(st.lists(st.sampled_from(["a", "b", "é", "\u00e9", "x" * 512]), max_size=30))
def test_exactly_the_later_lines_with_an_id_are_duplicates(ids: list[str]) -> None:
    errors = check(b"".join(good_line(custom_id) + b"\n" for custom_id in ids)).errors.listed
    first = {custom_id: ids.index(custom_id) + 1 for custom_id in ids}
    later = [(number, first[custom_id]) for number, custom_id in enumerate(ids, 1) if first[custom_id] != number]
    assert [error.line for error in errors] == [number for number, _ in later]
    assert [int(re.findall(r"in line (\d+)", error.message)[0]) for error in errors] == [line for _, line in later]


# --- Answers ---


WRITERS: st.SearchStrategy[Callable[[Any], str]] = st.sampled_from(
    [json.dumps, partial(json.dumps, ensure_ascii=False), partial(json.dumps, ensure_ascii=False, indent=1)]
)


@given(TEXTS, TEXTS, st.integers(200, 599), OBJECTS, WRITERS)
def test_a_result_line_is_one_line_and_reads_back(
    custom_id: str, request_id: str, status: int, value: dict[str, Any], write: Callable[[Any], str]
) -> None:
    body = write(value).encode()
    line = result_line(
        request_id="batch_req_1", custom_id=custom_id, status=status, server_request_id=request_id, body=body
    )
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {
        "id": "batch_req_1",
        "custom_id": custom_id,
        "response": {"status_code": status, "request_id": request_id, "body": value},
        "error": None,
    }
    finished = read_finished_line(line)
    assert (finished.custom_id, finished.code, finished.succeeded) == (custom_id, str(status), status < 300)
    assert finished.body == in_one_line(body)


@given(TEXTS, st.text(max_size=20))
def test_a_failure_line_is_one_line_and_reads_back(custom_id: str, message: str) -> None:
    line = failure_line(request_id="batch_req_1", custom_id=custom_id, code="connection_error", message=message)
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line)["error"] == {"code": "connection_error", "message": message}
    assert read_finished_line(line).custom_id == custom_id


@given(st.data(), OBJECTS)
def test_any_answer_fits_into_an_error_line(data: st.DataObject, value: dict[str, Any]) -> None:
    answer = data.draw(st.binary(max_size=40) | damaged(encode(value)))
    line = result_line(request_id="r", custom_id="a", status=500, server_request_id="s", body=error_body(500, answer))
    assert len(line.decode().splitlines()) == 1
    assert read_finished_line(line).code == "500"
    kept = STRICT.decode(line.decode())["response"]["body"]
    if (whole := strict_object(answer)) is not None:
        assert kept == whole


@given(st.data(), OBJECTS)
def test_an_answer_that_is_taken_makes_a_line_that_strict_readers_take(
    data: st.DataObject, extra: dict[str, Any]
) -> None:
    value = {"choices": [{"finish_reason": "stop"}], "usage": {"total_tokens": 3}, **extra}
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    body = without_lone_surrogates(data.draw(st.just(text) | damaged(text)))
    with suppress(ValueError):
        read_answer(body)
        line = result_line(request_id="r", custom_id="a", status=200, server_request_id="s", body=body)
        assert len(line.decode().splitlines()) == 1
        read_finished_line(line)
        json.loads(line, parse_constant=refuse)


ESCAPES = r"\ud83d \ude00 \uD83D \uDE00 \udbff \udfff \ud7ff \ue000 \u0041 \n \" \\"
PIECES = st.sampled_from([*ESCAPES.split(), "u", "d83d", "ud83d", "ude00", "x", "\u2028"])


@given(st.lists(PIECES, max_size=12).map("".join))
@example(r"\\\ud83d\\\\ude00\ude00")
def test_only_halves_of_characters_are_replaced(text: str) -> None:
    body = f'{{"x":"{text}"}}'.encode()
    mended = without_lone_surrogates(body)
    assert json.loads(mended)["x"] == re.sub("[\ud800-\udfff]", "\ufffd", json.loads(body)["x"])
    assert without_lone_surrogates(mended) == mended
    assert read_object(mended) is not None


# --- Counts ---


COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three) == sum_usage([three, one, two])
    assert one + Usage() == one


@pytest.mark.parametrize("name", Usage.__struct_fields__)
@given(st.lists(USAGES, max_size=6))
def test_a_sum_is_unknown_only_where_all_are(name: str, usages: list[Usage]) -> None:
    known = [count for usage in usages if (count := getattr(usage, name)) is not None]
    assert getattr(sum_usage(usages), name) == (sum(known) if known else None)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100)), max_size=5))
def test_counts_by_name_add_up(counts: list[dict[str, int]]) -> None:
    total = add_counts(*counts)
    assert total == {
        name: sum(some.get(name, 0) for some in counts) for name in {name for some in counts for name in some}
    }
    assert list(total.values()) == sorted(total.values(), reverse=True)
