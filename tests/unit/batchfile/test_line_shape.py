"""The decoder of lines that look like those before them: what it takes, and what it leaves to a closer look."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from batchwright.batchfile import line_shape
from batchwright.batchfile.line_shape import ExpectedLine, LineShape
from unit.batchfile.builders import CHAT, MODEL, encode, request

REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)


def shape_of(*bodies: dict[str, Any]) -> LineShape:
    shape = LineShape(("messages",))
    for body in bodies:
        learn(shape, body)
    return shape


def learn(shape: LineShape, body: dict[str, Any], **envelope: Any) -> bool:
    return shape.learn(request(body=body, **envelope))


def decoder_of(*bodies: dict[str, Any]) -> Callable[[Any], ExpectedLine]:
    return shape_of(*bodies).decoder(url=CHAT, model=MODEL)


def body(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = request(**{f"body__{name}": value for name, value in changes.items()})["body"]
    return made


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]

TAKEN: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("the same fields", [body(seed=1)], body(seed=2)),
    ("fewer fields", [body(seed=1, stop=["x"])], body()),
    ("fields of several lines", [body(seed=1), body(stop=["x"])], body(seed=1, stop=["x"])),
    ("a field of another type", [body(stop="x")], body(stop=["x", 1, None])),
    ("an object that was a list before", [body(x=[{"y": 1}]), body(x={"y": 1})], body(x=3)),
    ("more messages", [body()], body(messages=[{"role": "user", "content": str(number)} for number in range(9)])),
    ("no message", [body()], body(messages=[])),
    (
        "fields of several messages",
        [body(messages=[{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "1"}])],
        body(messages=[{"role": "tool", "content": "x", "tool_call_id": "2"}]),
    ),
    ("nested objects", [body(tools=TOOLS)], body(tools=TOOLS * 3)),
    (
        "a map that is deep within",
        [body(tools=[{"a": {"b": {"c": {"d": 1}}}}])],
        body(tools=[{"a": {"b": {"c": {"e": 2}}}}]),
    ),
    ("not to stream", [body(stream=False)], body(stream=False)),
    ("names beyond ASCII", [body(größe=1, **{"": 2, "a b": 3, "class": 4})], body(größe=2, **{"": 3, "class": 5})),
]


@pytest.mark.parametrize(("learned", "line"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_a_line_of_the_learned_shape_is_taken(learned: list[dict[str, Any]], line: dict[str, Any]) -> None:
    taken = decoder_of(*learned)(encode(request("it", body=line)))
    assert taken.custom_id == "it"
    assert not taken.body.stream


LEFT: list[tuple[str, dict[str, Any]]] = [
    ("a new field of the body", request("a", body__top_p=1)),
    ("a new field of a message", request("a", body__messages=[{"role": "user", "content": "x", "name": "y"}])),
    ("a new field of the envelope", request("a", priority=1)),
    ("messages that are no objects", request("a", body__messages=["x"])),
    ("null messages", request("a", body__messages=None)),
    ("no messages", request("a", body__messages=...)),
    ("another model", request("a", body__model="x")),
    ("no model", request("a", body__model=...)),
    ("another url", request("a", url="/v1/completions")),
    ("another method", request("a", method="GET")),
    ("no custom_id", request(...)),
    ("empty custom_id", request("")),
    ("long custom_id", request("x" * 513)),
    ("a stream that is no boolean", request("a", body__stream=0)),
    ("no body", request("a", body=...)),
    ("a body that is a list", request("a", body=[])),
]


@pytest.mark.parametrize("line", [row[1] for row in LEFT], ids=[row[0] for row in LEFT])
def test_any_other_line_is_left_to_a_closer_look(line: dict[str, Any]) -> None:
    decode = decoder_of(body())
    assert decode(encode(request("a")))
    with pytest.raises(REFUSED):
        decode(encode(line))


@pytest.mark.parametrize("line", [b"", b" ", b"x", b"[]", line_shape.LineShape(())])
def test_what_is_no_line_at_all_is_refused(line: object) -> None:
    with pytest.raises(REFUSED):
        decoder_of(body())(line)


@pytest.mark.parametrize("value", [0, 1.5, "x", True, [], [1], {}, {"x": 1}])
def test_a_required_field_that_was_of_many_types_is_anything_but_null(value: object) -> None:
    decode = decoder_of(body(messages="x"), body(messages=[1]), body(messages={"y": 1}))
    assert decode(encode(request("a", body__messages=value)))
    with pytest.raises(REFUSED):
        decode(encode(request("a", body__messages=None)))


def test_to_stream_is_left_to_the_caller() -> None:
    assert decoder_of(body())(encode(request("a", body__stream=True))).body.stream is True


def test_fields_of_the_envelope_are_learned_too() -> None:
    shape = shape_of(body())
    assert learn(shape, body(), priority=1, tags=["x"])
    assert shape.decoder(url=CHAT, model=MODEL)(encode(request("a", priority={"x": 1})))


def test_a_line_that_is_known_teaches_nothing() -> None:
    shape = LineShape(("messages",))
    assert learn(shape, body(seed=1))
    assert not learn(shape, body(seed=2))
    assert learn(shape, body(top_p=1))


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\x00"])
def test_names_that_must_be_escaped_are_not_learned(name: str) -> None:
    shape = LineShape(("messages",))
    assert not learn(shape, body(**{name: 1}))
    learn(shape, body(metadata={name: 1}))
    assert shape.decoder(url=CHAT, model=MODEL)(encode(request("a", body__metadata={name: 2, "other": 3})))


@pytest.mark.parametrize("names_at_once", [1, 40])
def test_a_map_whose_names_are_data_is_taken_as_it_is(names_at_once: int) -> None:
    shape = LineShape(("messages",))
    for first in range(0, 200, names_at_once):
        learn(shape, body(metadata={f"name{number}": 1 for number in range(first, first + names_at_once)}))
    assert shape.decoder(url=CHAT, model=MODEL)(encode(request("a", body__metadata={"unheard": 1})))


def test_a_body_of_many_names_is_not_learned_past_a_bound() -> None:
    shape = LineShape(("messages",))
    assert not learn(shape, body(**{f"name{number}": 1 for number in range(line_shape.MAX_FIELDS)}))


def test_lessons_end() -> None:
    shape = LineShape(())
    taught = sum(learn(shape, {"x": {f"name{number}": {f"name{number}": 1}}}) for number in range(1000))
    assert taught <= line_shape.MAX_LESSONS
