"""One line of the input: what a worker reads of it, and everything that can be wrong with it by itself.

msgspec alone refuses NaN, Infinity, lone surrogates, nesting that is too deep, and in what it decodes (other than in
what it skips) numbers that overflow and invalid UTF-8. So a line is checked by decoding all of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from msgspec import Raw, Struct
from msgspec.json import Decoder

from batchwright.api.batchjob import Endpoint
from batchwright.batchfile import errors
from batchwright.batchfile.errors import FileError
from batchwright.batchfile.line_shape import MAX_CUSTOM_ID_LENGTH
from batchwright.batchfile.undecodable import UNDECODABLE

ENVELOPE_BYTES: Final = 1024 * 1024
"""What a line may have around its body: custom_id, method, url, white space."""

ENVELOPE_FIELDS: Final = ("custom_id", "method", "url", "body")

REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    Endpoint.CHAT_COMPLETIONS: ("messages",),
    Endpoint.COMPLETIONS: ("prompt",),
    Endpoint.EMBEDDINGS: ("input",),
    Endpoint.RESPONSES: ("input",),
    Endpoint.SCORE: (),
    Endpoint.RERANK: ("query", "documents"),
}
"""Fields of the body beside `model` that each endpoint needs. The server checks the rest."""


class RequestLine(Struct, gc=False):
    """A line as the run reads it, after the plan has checked it. The body's bytes are as they stand in the file."""

    custom_id: str
    url: str
    body: Raw


class _Identified(Struct, gc=False):
    custom_id: str


class _RawBody(Struct, gc=False):
    body: Raw


_request = Decoder(RequestLine)
_identified = Decoder(_Identified)
_raw_body = Decoder(_RawBody)
_anything = Decoder()


def read_request(line: bytes) -> RequestLine:
    """Decode a line of a planned input.

    Raises:
        ValueError: the line is not what the plan saw.
    """
    try:
        return _request.decode(line)
    except UNDECODABLE as error:
        raise ValueError("the line is not the one that was planned") from error


def read_object(line: bytes) -> dict[str, Any] | None:
    """The whole line, strictly; None where it is no JSON object."""
    try:
        value = _anything.decode(line)
    except UNDECODABLE:
        return None
    return value if isinstance(value, dict) else None


def read_custom_id(line: bytes) -> str | None:
    """The id of a line of which nothing else is known to be right, None where there is none. Fast."""
    try:
        return _identified.decode(line).custom_id
    except UNDECODABLE:
        return None


def body_size(line: bytes) -> int:
    """Bytes of the body as it stands in a line that is a JSON object with a body."""
    return len(memoryview(_raw_body.decode(line).body))


def is_custom_id(value: object) -> TypeGuard[str]:
    """Whether a value can be an id."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_CUSTOM_ID_LENGTH


def check_envelope(number: int, line: Mapping[str, Any]) -> Iterator[FileError]:
    """What is wrong with a line but for its body's fields, and whether the url is the right one. Lines count from 1."""
    for name in ENVELOPE_FIELDS:
        if name not in line:
            yield errors.missing_parameter(number, name)
    if not is_custom_id(line.get("custom_id", "-")):
        yield errors.invalid_custom_id(number)
    if line.get("method", "POST") != "POST":
        yield errors.invalid_method(number)
    if not isinstance(line.get("url", ""), str):
        yield errors.invalid_url(number)
    if not isinstance(line.get("body", {}), dict):
        yield errors.body_not_an_object(number)


def check_body(number: int, body: Mapping[str, Any], endpoint: str | None) -> Iterator[FileError]:
    """What is wrong with the body of a request, the model aside. An unknown endpoint requires nothing."""
    for name in REQUIRED_FIELDS.get(endpoint or "", ()):
        if body.get(name) is None:
            yield errors.parameter_required(number, name)
    if body.get("stream") not in (None, False):
        yield errors.streaming_unsupported(number)
