"""POST /v1/files: a form that streams in becomes a file, or nothing.

The event loop reads and parses; what may block (the storage, a spool file) runs in threads, in blocks, so that a client
that sends slowly holds no thread and little memory. Whatever ends it early (the client, a limit, a fault, a stop of the
process) aborts the upload.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from fastapi import Request

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.form import FIELD_BYTES, FILE, UploadForm, too_long, usable_filename
from batchwright.gateway.files.intake import Intake
from batchwright.gateway.files.multipart import (
    FormEvent,
    FormReader,
    MalformedForm,
    PartBegins,
    PartData,
    boundary_of,
)
from batchwright.gateway.files.request_body import ClientGone, RequestBody
from batchwright.gateway.http.dependencies import namespace_of
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI
from batchwright.gateway.records.file_record import FileRecord

BLOCK_BYTES: Final = 128 << 10
"""What a thread is given at once."""
FORM_BYTES: Final = 1 << 20
"""Of a body beside the file's bytes: boundaries, headers, fields."""
THREADS: Final = 16
"""Uploads that the storage works on at once; the others wait for their turn, and their clients with them."""

STOP_SECONDS: Final = 20.0
"""That a stopping process waits for uploads to be aborted."""

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="upload")
_under_way: set[asyncio.Task[object]] = set()
T = TypeVar("T")


async def receive(gateway: Gateway, principal: Principal, request: Request) -> FileRecord:
    """Read a form from a request and make a file of it. Raises ApiError and StorageError; then nothing is left."""
    namespace = namespace_of(principal)
    limit = gateway.settings.face_limits(namespace, OPENAI).bytes
    _refuse_announced(request.headers, limit)
    try:
        reader = FormReader(boundary_of(request.headers.get("content-type")))
        receiving = _Receiving(reader, Intake(gateway, principal, namespace), limit)
        with _known():
            return await receiving.run(RequestBody(request), gateway.settings.upload_deadline.total_seconds())
    except MalformedForm as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error), code="invalid_multipart") from error
    except ClientGone as error:  # nobody reads this answer; the log has it
        raise ApiError(HTTPStatus.BAD_REQUEST, "The client closed the connection.", code="client_closed") from error


async def all_ended() -> None:
    """Wait, for a bounded time, until the uploads of this event loop are published or aborted.

    A server that stops cancels its requests and doesn't wait for what they do then.
    """
    if tasks := {task for task in _under_way if task.get_loop() is asyncio.get_running_loop()}:
        await asyncio.wait(tasks, timeout=STOP_SECONDS)


@contextlib.contextmanager
def _known() -> Iterator[None]:
    task = asyncio.current_task()
    assert task is not None
    _under_way.add(task)
    try:
        yield
    finally:
        _under_way.discard(task)


def _refuse_announced(headers: Mapping[str, str], limit: int | None) -> None:
    announced = headers.get("content-length", "")
    if limit is not None and announced.isdecimal() and int(announced) > limit + FORM_BYTES:
        raise _larger_than(limit)


def _larger_than(limit: int) -> ApiError:
    message = f"The file is larger than {limit} bytes, the limit of this gateway. Split it into several."
    return errors.too_large(message, FILE)


class _Receiving:
    """One upload, in the event loop."""

    def __init__(self, reader: FormReader, intake: Intake, limit: int | None) -> None:
        self._reader = reader
        self._intake = intake
        self._limit = limit
        self._form = UploadForm()
        self._field: str | None = None  # the part that is being read; FILE, or that of a field
        self._value = bytearray()
        self._filename: str | None = None
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._file_bytes = 0
        self._body_bytes = 0

    async def run(self, body: RequestBody, seconds: float) -> FileRecord:
        """To its end, whichever it is."""
        try:
            await self._read_in_time(body, seconds)
            publish = partial(self._intake.publish, self._checked_filename(), self._form.expires_after)
            return await _in_thread(publish)
        except BaseException:
            await asyncio.shield(_in_thread(self._intake.abort))
            raise

    def _checked_filename(self) -> str:
        """Once the form is known to be complete."""
        if self._filename is None:
            raise errors.missing_parameter(FILE)
        self._form.check()
        return self._filename

    async def _read_in_time(self, body: RequestBody, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._read(body)
        except TimeoutError as error:
            message = f"The upload took longer than {seconds:.0f} s, the limit of this gateway."
            raise ApiError(HTTPStatus.REQUEST_TIMEOUT, message, code="request_timeout") from error

    async def _read(self, body: RequestBody) -> None:
        async for data in body:
            self._body_bytes += len(data)
            for event in self._reader.feed(data):
                await self._take(event)
            if self._body_bytes - self._file_bytes > FORM_BYTES:
                raise MalformedForm(f"The multipart body has more than {FORM_BYTES} bytes beside the file.")
        self._reader.finish()
        await self._pass_on()

    async def _take(self, event: FormEvent) -> None:
        if isinstance(event, PartBegins):
            self._begin(event)
        elif not isinstance(event, PartData):
            self._end()
        elif self._field == FILE:
            await self._take_bytes(event.data)
        else:
            self._value += event.data
            if len(self._value) > FIELD_BYTES:
                raise too_long(self._field or "")

    def _begin(self, part: PartBegins) -> None:
        self._field = part.name
        if part.name == FILE:
            if self._filename is not None:
                raise errors.invalid_value(FILE, "Send one file in a request.")
            self._filename = usable_filename(part.filename)

    def _end(self) -> None:
        if self._field not in (None, FILE):
            self._form.add(self._field or "", bytes(self._value))
            self._value.clear()
        self._field = None

    async def _take_bytes(self, data: bytes) -> None:
        self._file_bytes += len(data)
        if self._limit is not None and self._file_bytes > self._limit:
            raise _larger_than(self._limit)
        self._block.append(data)
        self._block_bytes += len(data)
        if self._block_bytes >= BLOCK_BYTES:
            await self._pass_on()

    async def _pass_on(self) -> None:
        if self._block:
            block = b"".join(self._block)
            self._block.clear()
            self._block_bytes = 0
            await _in_thread(partial(self._intake.add, block))


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
