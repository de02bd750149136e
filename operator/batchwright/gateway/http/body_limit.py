"""A bound on every body that isn't an upload: the framework reads a JSON body as a whole, before it asks for a key."""

import asyncio
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES: Final = 1 << 20
"""The largest request beside an upload makes a batch: 16 pairs of metadata, a few names."""
BODY_SECONDS: Final = 60.0
UPLOADS: Final = ("/v1/files", "/v1/files/", "/ui/batches")
"""Ends of the paths whose bodies are read piece by piece, after authentication, with bounds of their own."""


class BodyLimit:
    """Refuses larger bodies with 413, and slower ones with 408, whether or not their size was announced."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and not scope["path"].endswith(UPLOADS):
            receive = _Bounded(receive, Headers(scope=scope).get("content-length", ""))
        await self._app(scope, receive, send)


class _Bounded:
    """`receive` of one request. What it raises comes out where the body is asked for; who never asks isn't stopped."""

    def __init__(self, receive: Receive, announced: str) -> None:
        self._receive = receive
        self._announced = int(announced) if announced.isdecimal() else 0
        self._bytes = 0
        self._complete = False
        self._deadline: float | None = None

    async def __call__(self) -> Message:
        """The next message. Raises HTTPException."""
        if self._complete:  # from here on it only tells that the client has gone, whenever that is
            return await self._receive()
        if self._announced > BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout_at(self._until()):
                message = await self._receive()
        except TimeoutError as error:
            raise HTTPException(
                HTTPStatus.REQUEST_TIMEOUT, f"The request's body did not come in within {BODY_SECONDS:.0f} s."
            ) from error
        self._bytes += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._bytes > BODY_BYTES:
            raise _too_large()
        return message

    def _until(self) -> float:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        return self._deadline


def _too_large() -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request's body is larger than {BODY_BYTES} bytes, the limit here."
    )
