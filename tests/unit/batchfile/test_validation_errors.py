"""Every row of the table of validation errors: code, param, message, line."""

from typing import Any

import pytest

from batchwright.batchfile import errors
from batchwright.batchfile.errors import FileError
from batchwright.batchfile.validation import MAX_LISTED_ERRORS, ErrorList
from unit.batchfile.builders import CHAT, EMBEDDINGS, MODEL, check, errors_of, found, good_line, input_of, request

PARSE = ("invalid_json_line", None, "This line is not parseable as valid JSON.")
ID = ("invalid_request", "custom_id", "custom_id must be a non-empty string of at most 512 characters.")
METHOD = ("invalid_method", "method", "The method of a batch request must be 'POST'.")
STREAM = ("streaming_unsupported", "body.stream", "Streaming is not supported in the Batch API.")
BODY = ("invalid_request", "body", "The request body must be a JSON object.")
NO_MODEL = ("invalid_request", "body.model", "Model parameter is required.")
NO_MESSAGES = ("invalid_request", "body.messages", "Messages parameter is required.")
WRONG_URL = "The URL provided for this request does not match the batch endpoint. It is {}, line 1 names '{}'."


def missing(name: str) -> tuple[str, str, str]:
    return "missing_required_parameter", name, f"Missing required parameter: '{name}'."


def invalid_url(url: str) -> tuple[str, str, str]:
    return "invalid_url", "url", WRONG_URL.format(f"'{url}'", CHAT)


ROWS: dict[str, tuple[bytes | dict[str, Any], tuple[str, str | None, str]]] = {
    "no JSON": (b"hello", PARSE),
    "JSON that was cut": (good_line()[:-1], PARSE),
    "an array": (b"[]", PARSE),
    "a string": (b'"text"', PARSE),
    "a number": (b"1", PARSE),
    "null": (b"null", PARSE),
    "two objects": (good_line("b") + good_line("c"), PARSE),
    "no custom_id": (request(...), missing("custom_id")),
    "no method": (request("b", method=...), missing("method")),
    "no url": (request("b", url=...), missing("url")),
    "no body": (request("b", body=...), missing("body")),
    "numeric custom_id": (request(7), ID),
    "null custom_id": (request(None), ID),
    "boolean custom_id": (request(True), ID),
    "custom_id that is a list": (request(["b"]), ID),
    "empty custom_id": (request(""), ID),
    "custom_id of 513 characters": (request("x" * 513), ID),
    "custom_id of 513 characters beyond ASCII": (request("🙂" * 513), ID),
    "GET": (request("b", method="GET"), METHOD),
    "method in small letters": (request("b", method="post"), METHOD),
    "null method": (request("b", method=None), METHOD),
    "another endpoint's url": (request("b", url="/v1/completions", body__prompt="x"), invalid_url("/v1/completions")),
    "url without its leading slash": (request("b", url=CHAT[1:]), invalid_url(CHAT[1:])),
    "url with a slash at its end": (request("b", url=CHAT + "/"), invalid_url(CHAT + "/")),
    "url with a host": (request("b", url="http://vllm" + CHAT), invalid_url("http://vllm" + CHAT)),
    "empty url": (request("b", url=""), invalid_url("")),
    "null url": (request("b", url=None), ("invalid_url", "url", "url must be a string.")),
    "numeric url": (request("b", url=1), ("invalid_url", "url", "url must be a string.")),
    "null body": (request("b", body=None), BODY),
    "body that is a string": (request("b", body="{}"), BODY),
    "body that is a list": (request("b", body=[]), BODY),
    "no model": (request("b", body__model=...), NO_MODEL),
    "null model": (request("b", body__model=None), NO_MODEL),
    "empty model": (request("b", body__model=""), NO_MODEL),
    "numeric model": (request("b", body__model=1), NO_MODEL),
    "another model": (
        request("b", body__model="llama"),
        (
            "mismatched_model",
            "body.model",
            "All lines of a batch must use one model: this line names 'llama', line 1 names 'qwen'.",
        ),
    ),
    "stream": (request("b", body__stream=True), STREAM),
    "stream as a number": (request("b", body__stream=1), STREAM),
    "stream as a word": (request("b", body__stream="true"), STREAM),
    "stream as a list": (request("b", body__stream=[]), STREAM),
    "no messages": (request("b", body__messages=...), NO_MESSAGES),
    "null messages": (request("b", body__messages=None), NO_MESSAGES),
    "the id of an earlier line": (
        request("first"),
        ("duplicate_custom_id", "custom_id", "The custom_id 'first' is used already in line 1: each must be unique."),
    ),
}


@pytest.mark.parametrize(("line", "expected"), ROWS.values(), ids=ROWS)
def test_each_error_of_a_line(line: bytes | dict[str, Any], expected: tuple[str, str | None, str]) -> None:
    code, param, message = expected
    data = input_of(good_line("first"), b"", line, good_line("last"))
    assert errors_of(data) == [FileError(code=code, message=message, line=3, param=param)]


@pytest.mark.parametrize(("line", "expected"), ROWS.values(), ids=ROWS)
def test_each_error_of_a_line_when_endpoint_and_model_are_given(
    line: bytes | dict[str, Any], expected: tuple[str, str | None, str]
) -> None:
    data = input_of(good_line("first"), b"", line, good_line("last"))
    assert found(data, endpoint=CHAT, model=MODEL) == [(3, expected[0], expected[1])]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.empty_file(), FileError("empty_file", "The input file is empty.")),
        (
            errors.too_many_tasks(50_001, 50_000),
            FileError("too_many_tasks", "The input file has 50001 requests; the limit is 50000."),
        ),
        (
            errors.file_too_large(201, 200),
            FileError("file_too_large", "The input file has 201 bytes; the limit is 200."),
        ),
        (
            errors.file_not_found("s3://b/in.jsonl"),
            FileError("invalid_request", "Cannot find file s3://b/in.jsonl.", None, "file_id"),
        ),
        (
            errors.model_not_found(4, "gpt", ["qwen", "llama"]),
            FileError(
                "model_not_found",
                "The model 'gpt' is not served. The server's models are: 'llama', 'qwen'.",
                4,
                "body.model",
            ),
        ),
        (
            errors.model_not_found(None, "gpt", []),
            FileError(
                "model_not_found", "The model 'gpt' is not served. The server's models are: none.", None, "body.model"
            ),
        ),
    ],
    ids=lambda value: value.code if isinstance(value, FileError) else "",
)
def test_each_error_of_a_file(error: FileError, expected: FileError) -> None:
    assert error == expected


def test_the_endpoint_that_was_given_is_named_and_not_a_line() -> None:
    (error,) = errors_of(input_of(request("a")), endpoint=EMBEDDINGS)
    assert error.message.endswith("It is '/v1/chat/completions', the batch's endpoint is '/v1/embeddings'.")


def test_the_model_that_was_given_is_named_and_not_a_line() -> None:
    (error,) = errors_of(input_of(request("a")), model="llama")
    assert error.message.endswith("this line names 'qwen', the batch's model is 'llama'.")


def test_a_url_that_no_server_has_names_those_that_are_supported() -> None:
    (error,) = errors_of(input_of(request("a", url="/v1/images")))
    assert (error.code, error.line, error.param) == ("invalid_url", 1, "url")
    assert "'/v1/images'" in error.message
    assert "/v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses" in error.message


def test_of_the_urls_those_alone_are_taken_that_are_supported_here() -> None:
    data = input_of(
        request("a", url=EMBEDDINGS, body__input="y"),
        request("b"),
        request("c", url="/v1/completions", body__prompt="x"),
    )
    listed = errors_of(data, supported=[CHAT, "/v1/completions"])
    assert [(error.line, error.code) for error in listed] == [(1, "invalid_url"), (3, "invalid_url")]
    assert f"It is '{EMBEDDINGS}', supported are {CHAT}, /v1/completions." in listed[0].message
    assert f"line 2 names '{CHAT}'" in listed[1].message


def test_urls_and_models_are_compared_with_the_first_line_that_names_one() -> None:
    data = input_of(b"", b"nonsense", request("a"), request("b", url=EMBEDDINGS, body__model="x", body__input="y"))
    invalid_json, *others = errors_of(data)
    assert invalid_json.line == 2
    assert [(error.line, error.code, error.message.partition("line 3 names")[1]) for error in others] == [
        (4, "invalid_url", "line 3 names"),
        (4, "mismatched_model", "line 3 names"),
    ]


def test_endpoint_and_model_of_all_lines_become_those_of_the_batch() -> None:
    validator = check(input_of(b"", request("a"), request("b")))
    assert (validator.endpoint, validator.model, validator.model_line) == (CHAT, MODEL, 2)


def test_several_errors_of_one_line_are_all_found() -> None:
    line = request(3, method="GET", url="/v1/completions", body__model="llama", body__stream=True)
    assert found(input_of(request("first"), line)) == [
        (2, "invalid_request", "custom_id"),
        (2, "invalid_method", "method"),
        (2, "invalid_url", "url"),
        (2, "mismatched_model", "body.model"),
        (2, "invalid_request", "body.prompt"),
        (2, "streaming_unsupported", "body.stream"),
    ]


def test_every_missing_field_of_a_line_is_named() -> None:
    assert found(input_of(b"{}")) == [
        (1, "missing_required_parameter", name) for name in ("custom_id", "method", "url", "body")
    ]


def test_a_body_is_checked_on_a_line_without_a_url() -> None:
    line = request("a", url=..., body__stream=True, body__messages=None)
    assert found(input_of(line), endpoint=CHAT) == [
        (1, "missing_required_parameter", "url"),
        (1, "invalid_request", "body.messages"),
        (1, "streaming_unsupported", "body.stream"),
    ]


def test_a_body_needs_what_its_own_url_needs() -> None:
    line = request("b", url=EMBEDDINGS, body__messages=..., body__input="text")
    assert found(input_of(request("a"), line)) == [(2, "invalid_url", "url")]


REQUIRED = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/completions": {"prompt": "x"},
    "/v1/embeddings": {"input": ["x"]},
    "/v1/responses": {"input": "x"},
    "/v1/score": {},
    "/v1/rerank": {"query": "x", "documents": ["x"]},
}


@pytest.mark.parametrize("url", REQUIRED)
def test_each_endpoint_has_its_required_fields(url: str) -> None:
    fields = REQUIRED[url]
    lines = [request("whole", url=url, body={"model": MODEL, **fields})]
    lines += [request(name, url=url, body={"model": MODEL, **fields, name: None}) for name in fields]
    expected = [(number, "invalid_request", f"body.{name}") for number, name in enumerate(fields, start=2)]
    assert found(input_of(*lines)) == expected
    assert found(input_of(*lines), endpoint=url) == expected


@pytest.mark.parametrize("stream", [False, None, 0])
def test_not_to_stream_may_be_said(stream: object) -> None:
    assert found(input_of(request("a"), request("b", body__stream=stream), request("c", body__stream=stream))) == []


def test_a_value_in_a_message_is_cut() -> None:
    (error,) = errors_of(input_of(request("a"), request("b", body__model="m" * 5000)))
    assert "m" * 200 + "…'" in error.message
    assert len(error.message) < 400


def test_every_error_is_counted_and_the_first_are_listed() -> None:
    listed = ErrorList(limit=2)
    listed.add(errors.invalid_json(line) for line in (1, 2))
    listed.add([errors.invalid_json(3)])
    assert ([error.line for error in listed.listed], listed.count) == ([1, 2], 3)


def test_the_list_of_a_file_is_bounded() -> None:
    validator = check(b"x\n" * (MAX_LISTED_ERRORS + 5))
    assert len(validator.errors.listed) == MAX_LISTED_ERRORS
    assert validator.errors.count == validator.requests == MAX_LISTED_ERRORS + 5


def test_bad_lines_are_requests_and_blank_ones_are_not() -> None:
    validator = check(input_of(request("a"), b"", b"x", b" \t\r", request("b")))
    assert (validator.requests, validator.index.requests) == (3, 2)
