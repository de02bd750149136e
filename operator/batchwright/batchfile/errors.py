"""Errors of an input file: OpenAI's codes and messages, and ours where no source settles one."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

PARSE_MESSAGE: Final = "This line is not parseable as valid JSON."
URL_MESSAGE: Final = "The URL provided for this request does not match the batch endpoint."
MAX_SHOWN: Final = 200
"""Characters of a user's own value in a message."""


@dataclass(frozen=True, slots=True)
class FileError:
    """One error of an input file. `line` is from 1, or None when the file as a whole is wrong."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


def shown(value: str) -> str:
    """A value for a message, in quotes and cut to a bound."""
    return f"'{value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + '…'}'"


def invalid_json(line: int) -> FileError:
    """The line is no JSON object."""
    return FileError("invalid_json_line", PARSE_MESSAGE, line)


def missing_parameter(line: int, name: str) -> FileError:
    """One of custom_id, method, url, body is absent."""
    return FileError("missing_required_parameter", f"Missing required parameter: '{name}'.", line, name)


def invalid_method(line: int) -> FileError:
    """Only POST."""
    return FileError("invalid_method", "The method of a batch request must be 'POST'.", line, "method")


def invalid_custom_id(line: int) -> FileError:
    """Null, a number, empty or too long."""
    return FileError(
        "invalid_request", "custom_id must be a non-empty string of at most 512 characters.", line, "custom_id"
    )


def duplicate_custom_id(line: int, custom_id: str, first_line: int) -> FileError:
    """The same id as an earlier line."""
    return FileError(
        "duplicate_custom_id",
        f"The custom_id {shown(custom_id)} is used already in line {first_line}: each must be unique.",
        line,
        "custom_id",
    )


def mismatched_url(line: int, url: str, endpoint: str, first_line: int | None) -> FileError:
    """Another url than the batch's endpoint, or than the first line's."""
    whose = "the batch's endpoint is" if first_line is None else f"line {first_line} names"
    return FileError(
        "invalid_url",
        f"{URL_MESSAGE} It is {shown(url)}, {whose} {shown(endpoint)}.",
        line,
        "url",
    )


def unsupported_url(line: int, url: str, supported: Collection[str]) -> FileError:
    """A url that is none of the batch endpoints, where no endpoint is known yet."""
    return FileError(
        "invalid_url",
        f"{URL_MESSAGE} It is {shown(url)}, supported are {', '.join(supported)}.",
        line,
        "url",
    )


def invalid_url(line: int) -> FileError:
    """A url that is no string."""
    return FileError("invalid_url", "url must be a string.", line, "url")


def mismatched_model(line: int, model: str, expected: str, first_line: int | None) -> FileError:
    """Another model than the batch's, or than the first line's."""
    whose = "the batch's model is" if first_line is None else f"line {first_line} names"
    return FileError(
        "mismatched_model",
        f"All lines of a batch must use one model: this line names {shown(model)}, {whose} {shown(expected)}.",
        line,
        "body.model",
    )


def model_not_found(line: int | None, model: str, served: Collection[str]) -> FileError:
    """The server doesn't serve the model."""
    names = ", ".join(shown(name) for name in sorted(served)[:20]) or "none"
    return FileError(
        "model_not_found",
        f"The model {shown(model)} is not served. The server's models are: {names}.",
        line,
        "body.model",
    )


def streaming_unsupported(line: int) -> FileError:
    """`stream: true`: a batch has no one to stream to."""
    return FileError("streaming_unsupported", "Streaming is not supported in the Batch API.", line, "body.stream")


def parameter_required(line: int, name: str) -> FileError:
    """A field that the endpoint needs in its body."""
    return FileError(
        "invalid_request", f"{name.replace('_', ' ').capitalize()} parameter is required.", line, f"body.{name}"
    )


def body_not_an_object(line: int) -> FileError:
    """The body is JSON, but no object."""
    return FileError("invalid_request", "The request body must be a JSON object.", line, "body")


def body_too_large(line: int, size: int, limit: int) -> FileError:
    """The request body is over the limit."""
    return FileError("invalid_request", f"The request body has {size} bytes; the limit is {limit}.", line, "body")


def line_too_long(line: int, size: int, limit: int) -> FileError:
    """A line so long that no legal body fills it: it was not read."""
    message = f"The line has {size} bytes; the limit for a request body is {limit}."
    return FileError("invalid_request", message, line, "body")


def empty_file() -> FileError:
    """No request in the file."""
    return FileError("empty_file", "The input file is empty.")


def too_many_tasks(count: int, limit: int) -> FileError:
    """More requests than are allowed."""
    return FileError("too_many_tasks", f"The input file has {count} requests; the limit is {limit}.")


def file_too_large(size: int, limit: int) -> FileError:
    """More bytes than are allowed."""
    return FileError("file_too_large", f"The input file has {size} bytes; the limit is {limit}.")


def file_not_found(uri: str) -> FileError:
    """No object at the URI."""
    return FileError("invalid_request", f"Cannot find file {uri}.", None, "file_id")
