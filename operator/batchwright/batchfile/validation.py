"""Checking a whole input in one pass, with memory that hardly grows with it: 12 bytes for a request.

Most lines look like those before them and are taken by one typed decode (`line_shape`). The others, good or bad, are
looked at field by field.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from batchwright.api.batchjob import Endpoint
from batchwright.batchfile import errors
from batchwright.batchfile.custom_ids import IdDigests, digest_of
from batchwright.batchfile.errors import FileError
from batchwright.batchfile.input_index import InputIndex
from batchwright.batchfile.line_shape import ExpectedLine, LineShape
from batchwright.batchfile.lines import OversizeLine, is_blank
from batchwright.batchfile.request_line import (
    REQUIRED_FIELDS,
    body_size,
    check_body,
    check_envelope,
    is_custom_id,
    read_custom_id,
    read_object,
)
from batchwright.batchfile.undecodable import UNDECODABLE

MAX_LISTED_ERRORS: Final = 1000
_UNEXPECTED: Final = (*UNDECODABLE, TypeError)
"""What the decoder of expected lines raises; a TypeError where a line is an OversizeLine."""
_ENDPOINTS = tuple(str(endpoint) for endpoint in Endpoint)


@dataclass(slots=True)
class ErrorList:
    """The first errors, and the count of all."""

    limit: int = MAX_LISTED_ERRORS
    listed: list[FileError] = field(default_factory=list)
    count: int = 0

    def add(self, found: Iterable[FileError]) -> None:
        """Count every error and keep those that have room."""
        for error in found:
            self.count += 1
            if len(self.listed) < self.limit:
                self.listed.append(error)


class Validator:
    """Takes the lines of one file, in order; has errors, endpoint, model and index at the end.

    Endpoint and model are those that every line must name. Where they are None, the first line that names one decides:
    of the endpoints, one of those that are supported.
    """

    def __init__(
        self,
        *,
        endpoint: str | None,
        model: str | None,
        max_body_bytes: int,
        supported: Sequence[str] = _ENDPOINTS,
    ) -> None:
        self.endpoint = endpoint
        self._supported = supported
        self.model = model
        self.errors = ErrorList()
        self.index = InputIndex()
        """Of use only when there are no errors: bad lines are no requests to it."""
        self.model_line: int | None = None
        """The line that named the model first, where none was given."""
        self._endpoint_line: int | None = None
        self._max_body_bytes = max_body_bytes
        self._digests = IdDigests()
        self._bad_lines = 0
        self._shape: LineShape | None = None
        self._expected: Callable[[Any], ExpectedLine] = _nothing_expected

    def skip_byte_order_mark(self, length: int) -> None:
        """The file begins with a byte order mark, which belongs to no line."""
        self.index.add_gap(length, lines=0)

    def take(self, lines: Iterable[bytes | OversizeLine]) -> None:
        """Check the next lines."""
        for line in lines:
            try:
                request = self._expected(line)
            except _UNEXPECTED:
                self._look_closer(line)
                continue
            length = len(line) + 1
            if request.body.stream or length > self._max_body_bytes:
                self._look_closer(line)
                continue
            self.index.add_request(length)
            self._digests.add(request.custom_id)

    @property
    def requests(self) -> int:
        """Lines that are not blank, good ones and bad ones."""
        return self.index.requests + self._bad_lines

    def suspects(self) -> set[int]:
        """Digests of ids that may stand twice; see `find_duplicates`."""
        return self._digests.suspects()

    def _look_closer(self, line: bytes | OversizeLine) -> None:
        number = self.index.lines + 1
        length = len(line) + 1
        if isinstance(line, OversizeLine):
            self._refuse([errors.line_too_long(number, line.length, self._max_body_bytes)], length)
        elif is_blank(line):
            self.index.add_gap(length)
        elif (request := read_object(line)) is None:
            self._refuse([errors.invalid_json(number)], length)
        else:
            self._look_at_request(number, line, request)

    def _look_at_request(self, number: int, line: bytes, request: dict[str, Any]) -> None:
        custom_id = request.get("custom_id")
        if is_custom_id(custom_id):
            self._digests.add(custom_id)
        if found := list(self._check(number, line, request)):
            self._refuse(found, len(line) + 1)
            return
        self.index.add_request(len(line) + 1)
        self._learn(request)

    def _refuse(self, found: list[FileError], length: int) -> None:
        self.errors.add(found)
        self.index.add_gap(length)
        self._bad_lines += 1

    def _learn(self, line: dict[str, Any]) -> None:
        assert self.endpoint is not None, "a good line names the endpoint"
        assert self.model is not None, "a good line names the model"
        if self._shape is None:
            self._shape = LineShape(REQUIRED_FIELDS.get(self.endpoint, ()))
        if self._shape.learn(line):
            self._expected = self._shape.decoder(url=self.endpoint, model=self.model)

    def _check(self, number: int, line: bytes, request: dict[str, Any]) -> Iterator[FileError]:
        """Everything that is wrong with a line that is a JSON object."""
        yield from check_envelope(number, request)
        url, body = request.get("url"), request.get("body")
        if isinstance(url, str):
            yield from self._check_url(number, url)
        if isinstance(body, dict):
            if len(line) > self._max_body_bytes and (size := body_size(line)) > self._max_body_bytes:
                yield errors.body_too_large(number, size, self._max_body_bytes)
            yield from self._check_model(number, body.get("model"))
            yield from check_body(number, body, url if url in _ENDPOINTS else self.endpoint)

    def _check_url(self, number: int, url: str) -> Iterator[FileError]:
        if self.endpoint is not None:
            if url != self.endpoint:
                yield errors.mismatched_url(number, url, self.endpoint, self._endpoint_line)
        elif url in self._supported:
            self.endpoint, self._endpoint_line = url, number
        else:
            yield errors.unsupported_url(number, url, self._supported)

    def _check_model(self, number: int, model: object) -> Iterator[FileError]:
        if not isinstance(model, str) or not model:
            yield errors.parameter_required(number, "model")
        elif self.model is None:
            self.model, self.model_line = model, number
        elif model != self.model:
            yield errors.mismatched_model(number, model, self.model, self.model_line)


def _nothing_expected(line: object) -> ExpectedLine:
    raise TypeError("no line was found right yet")


def find_duplicates(lines: Iterable[Sequence[bytes | OversizeLine]], suspects: set[int]) -> Iterator[FileError]:
    """Look again at the ids whose digests came twice, and name the line that had each first."""
    first_lines: dict[str, int] = {}
    number = 0
    for some in lines:
        for line in some:
            number += 1
            if isinstance(line, OversizeLine) or (custom_id := _suspected_id(line, suspects)) is None:
                continue
            first = first_lines.setdefault(custom_id, number)
            if first != number:
                yield errors.duplicate_custom_id(number, custom_id, first)


def _suspected_id(line: bytes, suspects: set[int]) -> str | None:
    custom_id = read_custom_id(line)
    if custom_id is None or digest_of(custom_id) not in suspects or read_object(line) is None:
        return None
    return custom_id
