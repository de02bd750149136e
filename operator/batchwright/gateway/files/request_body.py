"""A request's body as it comes in, and an answer that comes before its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from batchwright.gateway.errors import ApiError

LINGER_SECONDS: Final = 60.0
_BEGUN: Final = "body_begun"
_ENDED: Final = "body_ended"


class ClientGone(Exception):  # noqa: N818
    """The client closed the connection before the body's end."""


class RequestBody:
    """The pieces of a body, none of them empty."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises ClientGone."""
        state = self._request.scope["state"]
        while not state.get(_ENDED):
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            state[_BEGUN] = True
            state[_ENDED] = not message.get("more_body", False)
            if data := message.get("body", b""):
                yield data


class EarlyError(JSONResponse):
    """An error that may come while the client is still sending.

    Most clients read no answer before they have sent everything, and lose it where the connection is closed before. So
    the answer is sent at once, and what still comes is taken and dropped, for a bounded time; then the connection ends.
    """

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.body(), error.status, error.headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["state"].get(_ENDED):
            await super().__call__(scope, receive, send)
            return

        async def send_all_but_the_end(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        self.headers["connection"] = "close"
        await super().__call__(scope, receive, send_all_but_the_end)
        if not _waits_for_leave(scope):
            await _linger(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _waits_for_leave(scope: Scope) -> bool:
    """Whoever asked whether to send (RFC 9110 §10.1.1) and gets an error instead sends nothing."""
    return Headers(scope=scope).get("expect", "").lower() == "100-continue" and not scope["state"].get(_BEGUN)


async def _linger(receive: Receive) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
