"""Checking a whole input in one pass, with memory that hardly grows with it.

For each request the index keeps 12 bytes: a 64-bit digest of its custom_id, and its length. Two equal digests are
only a suspicion; the ids themselves are compared in a second pass over the input, which happens for no good file.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from xxhash import xxh3_64_intdigest

from batchwright.api.batchjob import Endpoint
from batchwright.batchfile import errors
from batchwright.batchfile.errors import FileError
from batchwright.batchfile.lines import OversizeLine, is_blank
from batchwright.batchfile.plan_record import Shard
from batchwright.batchfile.request_line import CheckedLine, body_size, check_body, check_line, diagnose

MAX_LISTED_ERRORS = 1000
MAX_SUSPECTS = 1_000_000
_BUCKETS = 1024
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


class IdDigests:
    """Digests of ids, 8 bytes each, in buckets so that looking for equal ones needs little more."""

    def __init__(self) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def add(self, custom_id: str) -> None:
        """Remember an id."""
        digest = xxh3_64_intdigest(custom_id)
        self._buckets[digest % _BUCKETS].append(digest)

    def suspects(self) -> set[int]:
        """Digests that came more than once, at most MAX_SUSPECTS."""
        repeated: set[int] = set()
        for bucket in self._buckets:
            if len(set(bucket)) == len(bucket):
                continue
            seen: set[int] = set()
            for digest in bucket:
                if digest in seen:
                    repeated.add(digest)
                seen.add(digest)
            if len(repeated) >= MAX_SUSPECTS:
                break
        return repeated


class InputIndex:
    """Where each request lies: enough to cut the input into shards of any size."""

    def __init__(self) -> None:
        self._lengths = array("I")  # of a request's line with its end and the blank lines that follow
        self._blank_after = array("Q")  # for each blank line, the number of requests before it
        self._start: int | None = None

    def add_request(self, offset: int, length: int) -> None:
        """A request's line at a byte offset; length with its end."""
        if self._start is None:
            self._start = offset
        self._lengths.append(length)

    def add_blank(self, length: int) -> None:
        """A blank line; length with its end.

        Raises:
            OverflowError: more than 4 GiB of blank lines stand in one place.
        """
        self._blank_after.append(len(self._lengths))
        if self._lengths:
            self._lengths[-1] += length

    @property
    def requests(self) -> int:
        """Requests so far."""
        return len(self._lengths)

    def shards(self, lines_per_shard: int) -> list[Shard]:
        """Contiguous byte ranges that together hold every request once, in order."""
        if self._start is None:
            return []
        firsts = range(0, len(self._lengths), lines_per_shard)
        sizes = [sum(self._lengths[first : first + lines_per_shard]) for first in firsts]
        ends = list(accumulate(sizes, initial=self._start))
        return [
            Shard(
                start=ends[number],
                end=ends[number + 1],
                first_line=first + 1 + self._blanks_before(first),
                lines=min(lines_per_shard, len(self._lengths) - first),
            )
            for number, first in enumerate(firsts)
        ]

    def _blanks_before(self, request: int) -> int:
        return bisect_left(self._blank_after, request + 1)


@dataclass(slots=True)
class Validator:
    """Takes the lines of one file, in order; has errors, endpoint, model and index at the end."""

    endpoint: str | None
    model: str | None
    max_body_bytes: int
    errors: ErrorList = field(default_factory=ErrorList)
    index: InputIndex = field(default_factory=InputIndex)
    model_line: int | None = None
    """The line that named the model first, when the spec names none."""
    _endpoint_line: int | None = None
    _digests: IdDigests = field(default_factory=IdDigests)
    _number: int = 0
    _offset: int = 0
    _requests: int = 0

    def skip_byte_order_mark(self, length: int) -> None:
        """The file begins with a byte order mark, which belongs to no line."""
        self._offset = length

    def take(self, lines: Iterable[bytes | OversizeLine]) -> None:
        """Check the next lines."""
        for line in lines:
            self._number += 1
            if isinstance(line, OversizeLine):
                self._requests += 1
                self._add_error(errors.body_too_large(self._number, line.length, self.max_body_bytes, whole_line=True))
                self._offset += line.length + 1
                continue
            length = len(line) + 1
            checked = check_line(line)
            if checked is not None:
                self._take_request(line, checked, length)
            elif is_blank(line):
                self.index.add_blank(length)
            else:
                self._requests += 1
                self._take_bad_line(line)
            self._offset += length

    @property
    def requests(self) -> int:
        """Lines that are not blank, good ones and bad ones."""
        return self._requests

    def suspects(self) -> set[int]:
        """Digests of ids that may stand twice; see `find_duplicates`."""
        return self._digests.suspects()

    def _add_error(self, error: FileError) -> None:
        self.errors.add((error,))

    def _take_request(self, line: bytes, checked: CheckedLine, length: int) -> None:
        self._requests += 1
        self.index.add_request(self._offset, length)
        self._digests.add(checked.custom_id)
        if length > self.max_body_bytes and (size := body_size(line)) > self.max_body_bytes:
            self._add_error(errors.body_too_large(self._number, size, self.max_body_bytes))
        self._check_fields(checked.url, checked.body)

    def _take_bad_line(self, line: bytes) -> None:
        found, value = diagnose(self._number, line)
        self.errors.add(found)
        url, body = value.get("url"), value.get("body")
        if isinstance(url, str) and isinstance(body, dict):
            self._check_fields(url, body)

    def _check_fields(self, url: str, body: dict[str, Any]) -> None:
        if url != self.endpoint:
            self._check_url(url)
        model = body.get("model")
        if model != self.model or model is None:
            self._check_model(model)
        if self.endpoint is not None:
            self.errors.add(check_body(self._number, body, self.endpoint))

    def _check_url(self, url: str) -> None:
        if self.endpoint is not None:
            self._add_error(errors.mismatched_url(self._number, url, self.endpoint, self._endpoint_line))
        elif url in _ENDPOINTS:
            self.endpoint, self._endpoint_line = url, self._number
        else:
            self._add_error(errors.unsupported_url(self._number, _ENDPOINTS))

    def _check_model(self, model: object) -> None:
        if not isinstance(model, str) or not model:
            self._add_error(errors.parameter_required(self._number, "model"))
        elif self.model is None:
            self.model, self.model_line = model, self._number
        else:
            self._add_error(errors.mismatched_model(self._number, model, self.model, self.model_line))


def find_duplicates(lines: Iterator[Sequence[bytes | OversizeLine]], suspects: set[int]) -> Iterator[FileError]:
    """Look again at the ids whose digests came twice, and name the line that had each first."""
    first_lines: dict[str, int] = {}
    number = 0
    for some in lines:
        for line in some:
            number += 1
            checked = check_line(line) if isinstance(line, bytes) else None
            if checked is None or xxh3_64_intdigest(checked.custom_id) not in suspects:
                continue
            first = first_lines.setdefault(checked.custom_id, number)
            if first != number:
                yield errors.duplicate_custom_id(number, checked.custom_id, first)
