"""Forms that browsers send: small ones as a whole, and what stands before the file in an upload."""

import asyncio
from collections import deque
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.types import Message

from batchwright.gateway.errors import ApiError, too_large
from batchwright.gateway.files.form import FIELD_BYTES, FILE
from batchwright.gateway.files.multipart import FormReader, MalformedForm, PartBegins, PartData, boundary_of
from batchwright.gateway.files.request_body import ClientGone, RequestBody

FORM_BYTES: Final = 16 << 10
FORM_SECONDS: Final = 20.0
_PEEKED_BYTES: Final = 64 << 10


async def small_form(request: Request) -> dict[str, str]:
    """The fields of a form without files; the first value of each. Raises ApiError."""
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for data in RequestBody(request):
                body += data
                if len(body) > FORM_BYTES:
                    raise too_large(f"A form has at most {FORM_BYTES} bytes.")
    except (TimeoutError, ClientGone) as error:
        raise _not_whole() from error
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=32)
    except ValueError as error:
        raise ApiError(400, "The form has too many fields.") from error
    return dict(reversed(pairs))


async def fields_before_file(request: Request) -> tuple[dict[str, str], Request]:
    """The fields that stand before the file in an upload, and the request with its body from the beginning.

    A browser sends fields in the order of the page, so what is chosen there is known before the file streams in. A body
    that is no form has none; whoever takes the upload says so. Raises ApiError (408) where they don't come.
    """
    taken: deque[Message] = deque()
    fields: dict[str, bytes] = {}
    end = asyncio.get_running_loop().time() + FORM_SECONDS
    try:
        reader = FormReader(boundary_of(request.headers.get("content-type")))
        name, size = "", 0
        while name != FILE and size <= _PEEKED_BYTES:
            async with asyncio.timeout_at(end):
                message = await request.receive()
            taken.append(message)
            if message["type"] != "http.request":
                break
            size += len(message.get("body", b""))
            for event in reader.feed(message.get("body", b"")):
                if isinstance(event, PartBegins):
                    name = event.name
                    if name == FILE:
                        break
                elif isinstance(event, PartData) and len(fields.get(name, b"")) <= FIELD_BYTES:
                    fields[name] = fields.get(name, b"") + event.data
            if not message.get("more_body", False):
                break
    except MalformedForm:
        fields = {}
    except TimeoutError as error:
        raise _not_whole() from error

    async def receive() -> Message:
        return taken.popleft() if taken else await request.receive()

    return {name: value.decode("utf-8", "replace") for name, value in fields.items()}, Request(request.scope, receive)


async def drain(request: Request, seconds: float) -> None:
    """Take and drop what a browser still sends: it reads no answer before."""
    try:
        async with asyncio.timeout(seconds):
            async for _ in RequestBody(request):
                pass
    except (TimeoutError, ClientGone):
        return


def _not_whole() -> ApiError:
    return ApiError(408, "The form did not come in whole. Try again.", code="request_timeout")
