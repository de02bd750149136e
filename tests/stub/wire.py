"""Bytes on the connection: whole answers, and the broken ones that the switches ask for."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from stub.answers import SURROGATE_MARK
from stub.errors import error_body
from stub.switches import Step

_encode = msgspec.json.Encoder().encode
JSON_TYPE = "application/json"

GARBAGE = b"upstream connect error or disconnect/reset before headers"
_HTML = (
    "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class Payload:
    """An answer as it goes out."""

    status: int
    content: bytes
    content_type: str = JSON_TYPE


def encode_answer(body: dict[str, Any], step: Step) -> bytes:
    """Encode an answer. U+2028 stays as it is; the surrogate mark becomes an escape that no UTF-8 can hold."""
    content = _encode(body)
    if step.text == "surrogate":
        content = content.replace(SURROGATE_MARK.encode(), rb"\ud83d")
    return content


def encode_error(status: int, body: dict[str, Any]) -> Payload:
    return Payload(status, _encode(body))


def replacement(step: Step) -> Payload | None:
    """Return what a step puts in the place of the answer; None: the answer itself goes out."""
    status = step.status or 200
    if step.body == "empty":
        return Payload(status, b"")
    if step.body == "garbage":
        return Payload(status, GARBAGE)
    if step.body == "html":
        title = f"{status} {error_body(status, '')['error']['type']}"
        return Payload(status, _HTML.format(title=title).encode(), "text/html")
    if status != 200:
        if status == 401:
            return encode_error(status, {"error": "Unauthorized"})
        return encode_error(status, error_body(status, f"The switches ask for status {status}."))
    return None


def respond(payload: Payload, headers: dict[str, str]) -> web.Response:
    """Make the response. vLLM refuses a key outside of the middleware that adds Vary."""
    if payload.status == HTTPStatus.UNAUTHORIZED:
        headers.pop("Vary", None)
    return web.Response(status=payload.status, body=payload.content, headers=headers, content_type=payload.content_type)


async def send_half(request: web.BaseRequest, payload: Payload, headers: dict[str, str]) -> web.StreamResponse:
    """Send the head, with the length of the whole body, and half of the body."""
    response = web.StreamResponse(status=payload.status, headers=headers)
    response.content_type = payload.content_type
    response.content_length = max(2, len(payload.content))
    await response.prepare(request)
    await response.write(payload.content[: len(payload.content) // 2] or b"{")
    # Event loops may hold bytes back until their next turn; the part must be out before the end comes.
    await asyncio.sleep(0.01)
    return response


def close(request: web.BaseRequest) -> web.Response:
    """Close the connection in good order (FIN), after what was written."""
    if request.transport is not None:
        request.transport.close()
    return _unsent()


def reset(request: web.BaseRequest) -> web.Response:
    """Break the connection off (RST), with whatever was not yet sent."""
    transport = request.transport
    if transport is not None:
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # Zero linger turns the close into a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return _unsent()


def _unsent() -> web.Response:
    # aiohttp wants a response; writing it to a closing connection fails, which ends the connection's task.
    return web.Response(status=500)
