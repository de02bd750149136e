"""One line of the input: what a worker reads of it, and everything that can be wrong with it.

The common case, a good line, costs one typed decode. Only a line that this refuses is looked at again, field by
field, to say what is wrong.

msgspec alone refuses NaN, Infinity, numbers that overflow, lone surrogates and nesting that is too deep. It takes
invalid UTF-8 inside what it skips, which is why bytes that are not ASCII are checked before.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import DecodeError, Meta, Raw, Struct, ValidationError
from msgspec.json import Decoder

from batchwright.api.batchjob import Endpoint
from batchwright.batchfile import errors
from batchwright.batchfile.errors import FileError

MAX_CUSTOM_ID_LENGTH: Final = 512
ENVELOPE_BYTES: Final = 1024 * 1024
"""What a line may have around its body: custom_id, method, url, white space."""

REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    Endpoint.CHAT_COMPLETIONS: ("messages",),
    Endpoint.COMPLETIONS: ("prompt",),
    Endpoint.EMBEDDINGS: ("input",),
    Endpoint.RESPONSES: ("input",),
    Endpoint.SCORE: (),
    Endpoint.RERANK: ("query", "documents"),
}
"""Fields of the body beside `model` that each endpoint needs. The server checks the rest."""


class CheckedLine(Struct, gc=False):
    """A line whose envelope is right."""

    custom_id: Annotated[str, Meta(min_length=1, max_length=MAX_CUSTOM_ID_LENGTH)]
    method: Literal["POST"]
    url: str
    body: dict[str, Any]


class RequestLine(Struct, gc=False):
    """A line as the run reads it, after the plan has checked it. The body's bytes are as they stand in the file."""

    custom_id: str
    url: str
    body: Raw


class _RawBody(Struct, gc=False):
    body: Raw


_checked = Decoder(CheckedLine)
_request = Decoder(RequestLine)
_raw_body = Decoder(_RawBody)
_anything = Decoder()


def read_request(line: bytes) -> RequestLine:
    """Decode a line of a planned input.

    Raises:
        ValueError: the line is not what the plan saw.
    """
    try:
        return _request.decode(line)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError("the line is not the one that was planned") from error


def check_line(line: bytes) -> CheckedLine | None:
    """The line, or None when something is wrong with it that `diagnose` can name."""
    try:
        if not line.isascii():
            line.decode()
        return _checked.decode(line)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return None


def body_size(line: bytes) -> int:
    """Bytes of the body as it stands in a line that `check_line` accepts."""
    return len(bytes(_raw_body.decode(line).body))


def check_body(number: int, body: Mapping[str, Any], endpoint: str) -> Iterator[FileError]:
    """What is wrong with the body of a request to a supported endpoint, the model aside."""
    for name in REQUIRED_FIELDS.get(endpoint, ()):
        if body.get(name) is None:
            yield errors.parameter_required(number, name)
    if body.get("stream") not in (None, False):
        yield errors.streaming_unsupported(number)


def diagnose(number: int, line: bytes) -> tuple[list[FileError], dict[str, Any]]:
    """Say what is wrong with the envelope of a line that `check_line` refuses, and what else could be read of it.

    `number` counts from 1. The second value is empty for a line that is no JSON object.
    """
    try:
        line.decode()
        value = _anything.decode(line)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return [errors.invalid_json(number)], {}
    if not isinstance(value, dict):
        return [errors.invalid_json(number)], {}
    found = [errors.missing_parameter(number, name) for name in CheckedLine.__struct_fields__ if name not in value]
    found += _wrong_fields(number, value)
    return found or [errors.invalid_json(number)], value


def _wrong_fields(number: int, value: dict[str, Any]) -> Iterator[FileError]:
    custom_id = value.get("custom_id", "-")
    if not (isinstance(custom_id, str) and 1 <= len(custom_id) <= MAX_CUSTOM_ID_LENGTH):
        yield errors.invalid_custom_id(number)
    if value.get("method", "POST") != "POST":
        yield errors.invalid_method(number)
    if not isinstance(value.get("url", ""), str):
        yield errors.invalid_url(number)
    body = value.get("body", {})
    if not isinstance(body, dict):
        yield errors.body_not_an_object(number)


assert issubclass(ValidationError, DecodeError), "what the typed decode refuses must reach diagnose"
