"""Sending a large body from where it lies."""

from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from batchwright.worker.transport.protocol import Body

LARGE_BYTES: Final = 1 << 20
"""aiohttp writes bytes of up to this size in one go and warns above it. What it has for larger ones, io.BytesIO,
copies them."""

PIECE_BYTES: Final = 256 << 10


class LargeBody(aiohttp.Payload):
    """A body that is written piece by piece, without a copy. It may be written more than once."""

    def __init__(self, body: Body) -> None:
        super().__init__(memoryview(body), content_type="application/json")
        self._size = len(body)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all of it."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write it up to a length."""
        body: memoryview = self._value[:content_length]
        for start in range(0, len(body), PIECE_BYTES):
            await writer.write(body[start : start + PIECE_BYTES])

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return bytes(self._value).decode(encoding, errors)
