"""Result lines: OpenAI's shape, the answer's own bytes, and nothing that a reader could trip over."""

import json
from typing import Any

import pytest

from batchwright.batchfile.result_line import (
    MAX_KEPT_TEXT,
    MAX_SERVER_ERROR_BYTES,
    error_body,
    failure_line,
    in_one_line,
    is_success,
    line_number_of,
    read_finished_line,
    request_id_of,
    result_line,
    without_lone_surrogates,
)


def line_of(body: bytes, **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "request_id": "batch_req_1",
        "custom_id": "a",
        "status": 200,
        "server_request_id": "req-1",
    }
    return result_line(**{**fields, **changes}, body=body)


def test_an_answer_in_openais_shape() -> None:
    assert line_of(b'{"x":1}') == (
        b'{"id":"batch_req_1","custom_id":"a","response":'
        b'{"status_code":200,"request_id":"req-1","body":{"x":1}},"error":null}'
    )


def test_a_failure_in_openais_shape() -> None:
    line = failure_line(request_id="batch_req_1", custom_id="a", code="request_timeout", message="No answer in 3m.")
    assert line == (
        b'{"id":"batch_req_1","custom_id":"a","response":null,'
        b'"error":{"code":"request_timeout","message":"No answer in 3m."}}'
    )


BODIES = {
    "as servers write it": b'{"choices": [{"message": {"content": "Hi"}}], "x": 1.50, "big": 12345678901234567890}',
    "odd but legal": rb'{ "a" :1e5,"a":2 , "\u0061": "\/\u00e9" }',
    "raw unicode": '{"x":"é語🙂"}'.encode(),
    "escaped pair": rb'{"x":"\ud83d\ude00"}',
    "tabs between tokens": b'{\t"x":\t1}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_body_is_in_the_line_byte_for_byte(body: bytes) -> None:
    line = line_of(body)
    assert b'"body":' + body + b'},"error":null}' in line
    assert read_finished_line(line).body == body


@pytest.mark.parametrize(
    ("body", "kept"), [(b'{\r\n  "x": "a\\nb"\n}', b'{    "x": "a\\nb" }'), (b'{\r"x":1}', b'{ "x":1}')]
)
def test_line_breaks_between_tokens_become_spaces(body: bytes, kept: bytes) -> None:
    assert read_finished_line(line_of(body)).body == kept


def test_separators_that_clients_split_on_are_escaped() -> None:
    text = "a\u2028b\u2029c\u0085d"
    line = line_of(json.dumps({"x": text}, ensure_ascii=False).encode(), custom_id=text, server_request_id=text)
    assert rb'"x": "a\u2028b\u2029c\u0085d"' in line
    assert len(line.decode().splitlines()) == 1
    value = json.loads(line)
    assert (value["custom_id"], value["response"]["request_id"]) == (text, text)
    assert value["response"]["body"] == {"x": text}


@pytest.mark.parametrize("text", ["é\u0085", "\u00c2\u0085", "Ȩ\u2028\u2027", "\u2028\u2028", "…\u2026"])
def test_separators_are_found_among_their_neighbours(text: str) -> None:
    body = json.dumps(text, ensure_ascii=False).encode()
    assert json.loads(in_one_line(body)) == text


HARD_TEXTS = ['quote " and \\', "line\nbreak\r", "\x00\x1c\x1d\x1e\x0b\x0c", "\u2028", "é🙂", "x" * 512, "{}", "\x7f"]


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_any_text_survives(text: str) -> None:
    answered = line_of(b"{}", custom_id=text, server_request_id=text)
    failed = failure_line(request_id="batch_req_1", custom_id=text, code="connection_error", message=text)
    assert read_finished_line(answered).custom_id == read_finished_line(failed).custom_id == text
    assert json.loads(answered)["response"]["request_id"] == text
    assert json.loads(failed)["error"]["message"] == text
    assert len(answered.decode().splitlines()) == len(failed.decode().splitlines()) == 1


def test_a_header_that_is_no_utf8_does_not_stop_the_line() -> None:
    header = b"req-\xff".decode(errors="surrogateescape")
    assert json.loads(line_of(b"{}", server_request_id=header))["response"]["request_id"] == "req-?"


@pytest.mark.parametrize(
    ("line", "custom_id", "succeeded", "code", "body"),
    [
        (line_of(b'{"x":1}'), "a", True, "200", b'{"x":1}'),
        (line_of(b"{}", status=204), "a", True, "204", b"{}"),
        (line_of(b'{"error":{}}', status=400), "a", False, "400", b'{"error":{}}'),
        (
            failure_line(request_id="r", custom_id="b", code="batch_expired", message="m"),
            "b",
            False,
            "batch_expired",
            b"",
        ),
    ],
)
def test_a_line_is_read_back(line: bytes, custom_id: str, succeeded: bool, code: str, body: bytes) -> None:
    finished = read_finished_line(line)
    assert (finished.custom_id, finished.succeeded, finished.code, finished.body) == (custom_id, succeeded, code, body)


@pytest.mark.parametrize("fingerprint", ["0123456789abcdef", "0123456789abcdef-2"])
def test_its_id_tells_the_line_of_the_input(fingerprint: str) -> None:
    assert line_number_of(line_of(b"{}", request_id=request_id_of(fingerprint, 12_345))) == 12_345


@pytest.mark.parametrize("line", [b"", b"{}", b"\xff", b'{"id":5}', b'{"id":"batch_req_x_y"}'])
def test_a_line_without_such_an_id_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a result line"):
        line_number_of(line)


@pytest.mark.parametrize("line", [b"", b"{}", b'{"custom_id":"a"', b"[]", b"\xff", line_of(b"{}")[:-1]])
def test_what_is_no_result_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a result line"):
        read_finished_line(line)


@pytest.mark.parametrize(
    ("status", "success"),
    [(199, False), (200, True), (204, True), (299, True), (300, False), (400, False), (503, False)],
)
def test_2xx_is_success(status: int, success: bool) -> None:
    assert is_success(status) is success


class TestErrorBody:
    @pytest.mark.parametrize(
        "body", [b'{"error":{"message":"x"}}', b'{ "detail" : "x" }', b"[]", b'"text"', b"null", '{"x":"é"}'.encode()]
    )
    def test_json_is_kept_as_it_is(self, body: bytes) -> None:
        assert error_body(400, body) == body

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b"<html>\n<h1>502 Bad Gateway</h1>\n</html>\n", "<html>\n<h1>502 Bad Gateway</h1>\n</html>"),
            (b"upstream connect error", "upstream connect error"),
            (b'{"error":{"mess', '{"error":{"mess'),
            (b"", "The server answered 502 without a body."),
            (b" \r\n", "The server answered 502 without a body."),
            (b"caf\xe9 \xff", "caf\ufffd \ufffd"),
            (b'{"x":"\xff"}', '{"x":"\ufffd"}'),
            (b'{"x":NaN}', '{"x":NaN}'),
            ("é\u2028".encode(), "é"),
            (b"\x00\x1b[31m", "\x00\x1b[31m"),
        ],
    )
    def test_anything_else_is_wrapped(self, body: bytes, message: str) -> None:
        assert json.loads(error_body(502, body)) == {
            "error": {"message": message, "type": "invalid_response", "param": None, "code": 502}
        }

    def test_a_long_text_is_cut(self) -> None:
        wrapped = json.loads(error_body(500, "é".encode() * 1_000_000))
        assert wrapped["error"]["message"] == "é" * MAX_KEPT_TEXT

    def test_of_an_error_of_the_server_that_is_retried_only_the_beginning_is_held(self) -> None:
        body = json.dumps({"error": {"message": "x" * MAX_SERVER_ERROR_BYTES}}).encode()
        wrapped = json.loads(error_body(500, body))
        assert wrapped["error"]["message"] == body.decode()[:MAX_KEPT_TEXT]
        assert error_body(422, body) == body

    def test_json_with_half_a_character_is_still_json(self) -> None:
        assert error_body(400, rb'{"error":{"message":"cut \ud83d"}}') == rb'{"error":{"message":"cut \ufffd"}}'

    def test_json_nested_too_deep_is_wrapped_as_text(self) -> None:
        wrapped = error_body(500, b"[" * 100_000)
        assert json.loads(wrapped)["error"]["message"] == "[" * MAX_KEPT_TEXT

    @pytest.mark.parametrize("body", [b"", b"<html>\n\xff\r\n</html>", b'{\n"x":1\n}', "\u2028x".encode()])
    def test_whatever_came_fits_into_a_line(self, body: bytes) -> None:
        line = line_of(error_body(500, body), status=500)
        assert len(line.decode().splitlines()) == 1
        assert read_finished_line(line).code == "500"
        json.loads(line)


SURROGATES = [
    ("no escape", rb'"abc"', rb'"abc"'),
    ("other escapes", rb'"\u00e9\n\"\\"', rb'"\u00e9\n\"\\"'),
    ("a pair", rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
    ("a pair in large letters", rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
    ("high alone", rb'"\ud83d"', rb'"\ufffd"'),
    ("low alone", rb'"\ude00"', rb'"\ufffd"'),
    ("high alone in large letters", rb'"\uD83D x"', rb'"\ufffd x"'),
    ("in the wrong order", rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
    ("high before a pair", rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
    ("low after a pair", rb'"\ud83d\ude00\ude00"', rb'"\ud83d\ude00\ufffd"'),
    ("high before another escape", rb'"\ud83d\u0041"', rb'"\ufffd\u0041"'),
    ("high before a line break", rb'"\ud83d\n"', rb'"\ufffd\n"'),
    ("an escaped backslash and letters", rb'"\\ud83d"', rb'"\\ud83d"'),
    ("an escaped backslash and high alone", rb'"\\\ud83d"', rb'"\\\ufffd"'),
    ("two escaped backslashes and letters", rb'"\\\\ud83d"', rb'"\\\\ud83d"'),
    ("high alone and an escaped backslash", rb'"\ud83d\\ude00"', rb'"\ufffd\\ude00"'),
    ("an escaped quote and high alone", rb'"\"\ud83d"', rb'"\"\ufffd"'),
    ("the last and first of their kinds", rb'"\udbff\udfff\ud800\udc00"', rb'"\udbff\udfff\ud800\udc00"'),
    ("just outside", rb'"\ud7ff\ue000"', rb'"\ud7ff\ue000"'),
    ("in a name", rb'{"\udc00":1}', rb'{"\ufffd":1}'),
]


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in SURROGATES], ids=[row[0] for row in SURROGATES])
def test_halves_of_characters_are_replaced(body: bytes, expected: bytes) -> None:
    assert without_lone_surrogates(body) == expected
    json.loads(without_lone_surrogates(body)).__repr__().encode()
