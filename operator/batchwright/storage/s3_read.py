"""Reading a range of an S3 object to its end, whatever cuts the connection on the way."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from batchwright.storage.errors import Misconfigured, ObjectChanged, StorageError, StorageUnavailable
from batchwright.storage.s3_errors import TRANSPORT_ERRORS, code_of, status_of, translate

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client

logger = logging.getLogger(__name__)

CAREFUL_BLOCK_BYTES = 64 << 10
"""What is read at once after the first cut. A whole chunk at once is twice as fast, but a cut loses all of
it.
"""

MAX_READS_WITHOUT_PROGRESS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds

_RANGE_NOT_SATISFIABLE = 416
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The bytes [start, end) of one object; `end` None is the object's end, `etag` None is whatever is
    there.
    """

    bucket: str
    key: str
    uri: str
    start: int
    end: int | None
    etag: str | None


def quoted(etag: str) -> str:
    """An ETag as HTTP headers carry it."""
    return etag if etag.startswith("W/") else f'"{etag}"'


def unquoted(etag: str) -> str:
    """An ETag as this package carries it."""
    return etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag


def required_etag(answer: Mapping[str, Any], operation: str, uri: str) -> str:
    """The ETag of an answer to a read. All of S3 sends one, and without it a later read cannot be pinned.

    Raises Misconfigured when there is none: most likely it is not an S3 endpoint that answered.
    """
    etag = unquoted(answer.get("ETag", ""))
    if not etag:
        raise Misconfigured(
            operation, uri, "the answer has no ETag", None, "Check that endpointURL is that of an S3 API."
        )
    return etag


class ResumingRead:
    """One pass over a ReadRequest. After the first answer it is bound to that answer's ETag."""

    def __init__(self, client: S3Client, request: ReadRequest, sleep: Callable[[float], None]) -> None:
        self._client = client
        self._request = request
        self._sleep = sleep
        self.etag = request.etag
        self._position = request.start
        self._stop: int | None = None
        self._body: StreamingBody | None = None
        self.version_id: str | None = None
        self._failures = 0
        self._cut = False

    def chunks(self, size: int) -> Iterator[bytes]:
        """The range in chunks of `size` bytes, the last one shorter. See `ObjectStore.stream` for what it
        raises.
        """
        blocks: list[bytes] = []
        missing = size
        try:
            while block := self._block(min(missing, CAREFUL_BLOCK_BYTES) if self._cut else missing):
                blocks.append(block)
                missing -= len(block)
                if not missing:
                    yield blocks[0] if len(blocks) == 1 else b"".join(blocks)
                    blocks, missing = [], size
            if blocks:
                yield b"".join(blocks)
        finally:
            self._close()

    def _block(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end of the range."""
        while True:
            if self._body is None:
                self._open()
            if self._stop is None or self._position >= self._stop:
                return b""
            assert self._body is not None
            try:
                block = self._body.read(min(size, self._stop - self._position))
                if block:
                    self._position += len(block)
                    self._failures = 0
                    return block
                error: StorageError = StorageUnavailable("GetObject", self._request.uri, "the answer was cut")
            except TRANSPORT_ERRORS as cause:
                error = translate(cause, "GetObject", self._request.uri)
            self._close()
            self._pause_or_raise(error)

    def _open(self) -> None:
        while True:
            try:
                self._open_once()
            except TRANSPORT_ERRORS as cause:
                error = translate(cause, "GetObject", self._request.uri)
                # The client has already retried; only a read that was under way is worth more patience.
                if self._stop is None or not error.retryable:
                    raise error from cause
                self._pause_or_raise(error)
            else:
                return

    def _open_once(self) -> None:
        request = self._request
        conditions: dict[str, Any] = {"IfMatch": quoted(self.etag)} if self.etag else {}
        if self._position or request.end is not None:
            last = "" if request.end is None else request.end - 1
            conditions["Range"] = f"bytes={self._position}-{last}"
        try:
            answer = self._client.get_object(Bucket=request.bucket, Key=request.key, **conditions)
        except ClientError as error:
            at_end = self._stop is None and status_of(error) == _RANGE_NOT_SATISFIABLE
            if at_end or (self._stop is None and code_of(error) == "InvalidRange"):
                self._stop = self._position
                return
            raise
        self._body = answer["Body"]
        self._accept(answer, ranged="Range" in conditions)

    def _accept(self, answer: Mapping[str, Any], *, ranged: bool) -> None:
        """Check that the answer is the range of the object that was asked for."""
        uri = self._request.uri
        start, stop = 0, int(answer["ContentLength"])
        if content_range := _CONTENT_RANGE.match(answer.get("ContentRange", "")):
            start, stop = int(content_range[1]), int(content_range[2]) + 1
        elif ranged and self._position:
            raise Misconfigured("GetObject", uri, "the store ignores the Range header")
        if start != self._position:
            raise Misconfigured("GetObject", uri, f"asked for bytes from {self._position}, got them from {start}")
        etag = required_etag(answer, "GetObject", uri)
        if self.etag and etag != self.etag:
            raise ObjectChanged("GetObject", uri, f"ETag {etag} instead of {self.etag}")
        self.etag = etag
        self.version_id = answer.get("VersionId")
        if self._request.end is not None:
            stop = min(stop, self._request.end)
        self._stop = stop

    def _pause_or_raise(self, error: StorageError) -> None:
        self._cut = True
        self._failures += 1
        if self._failures >= MAX_READS_WITHOUT_PROGRESS:
            raise error
        logger.info("reading on at byte %d after: %s", self._position, error)
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))
        self._sleep(pause * random.uniform(0.5, 1))  # noqa: S311 (jitter, not a secret)

    def _close(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None
