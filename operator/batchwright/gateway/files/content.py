"""A file's bytes on their way out, from the storage to the client, chunk by chunk."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.ranges import ByteRange, Unsatisfiable, asked_range
from batchwright.gateway.http.streaming import sent
from batchwright.gateway.records.file_record import FileRecord
from batchwright.storage.errors import NotFound, ObjectChanged
from batchwright.storage.protocol import ObjectInfo

CHUNK_BYTES: Final = 256 << 10
MEDIA_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Content:
    """What is sent of an object."""

    status: int
    headers: dict[str, str]
    range: ByteRange


async def download(gateway: Gateway, record: FileRecord, request_headers: Headers) -> Response:
    """The bytes of a file, or the range of them that is asked for.

    The first chunk is read before the answer begins, so that what is wrong can still be said. Raises ApiError and
    StorageError.
    """
    folder = gateway.tenant(record.namespace)
    info = await run_in_threadpool(_head, gateway, record)
    content = content_of(record, info, request_headers)
    chunks = folder.store.stream(
        info.key,
        start=content.range.start,
        end=content.range.end,
        if_match=info.etag,
        chunk_size=CHUNK_BYTES,
    )
    try:
        first = await run_in_threadpool(next, chunks, b"")
    except NotFound as error:
        raise errors.no_such_file(record.id) from error
    except ObjectChanged as error:  # between the two requests
        raise errors.unavailable("The file is being replaced. Try again.", 1) from error
    return StreamingResponse(sent(first, chunks), content.status, content.headers)


def look(gateway: Gateway, record: FileRecord, request_headers: Headers) -> Response:
    """The answer to HEAD. Blocks. Raises ApiError and StorageError."""
    content = content_of(record, _head(gateway, record), request_headers)
    return Response(None, content.status, content.headers)


def content_of(record: FileRecord, info: ObjectInfo, request_headers: Headers) -> Content:
    """What is to be sent. Raises ApiError (416) for a range behind the end. Pure."""
    etag = f'"{info.etag}"'
    whole = request_headers.get("if-range", etag) != etag  # the client has begun with other bytes
    try:
        part = None if whole else asked_range(request_headers.get("range"), info.size)
    except Unsatisfiable as error:
        message = f"The file has {info.size} bytes; none of them is in the range that is asked for."
        headers = {"content-range": f"bytes */{info.size}", "accept-ranges": "bytes", "etag": etag}
        raise ApiError(416, message, code="invalid_range", headers=headers) from error
    sent = part or ByteRange(0, info.size)
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(sent.end - sent.start),
        "accept-ranges": "bytes",
        "etag": etag,
        "content-disposition": f"attachment; filename*=UTF-8''{quote(record.filename, safe='')}",
        # Nobody's upload may be taken for a page of ours.
        "x-content-type-options": "nosniff",
    }
    if part is not None:
        headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{info.size}"
    return Content(200 if part is None else 206, headers, sent)


def _head(gateway: Gateway, record: FileRecord) -> ObjectInfo:
    folder = gateway.tenant(record.namespace)
    try:
        return folder.store.head(folder.key(record.key))
    except NotFound as error:  # removed by somebody else, such as a lifecycle rule
        raise errors.no_such_file(record.id) from error
