"""Bytes on their way from the storage to a client."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from starlette.concurrency import run_in_threadpool


async def sent(first: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The body of an answer whose first piece is read already; none of them is empty. A client that reads slowly holds
    no thread.
    """
    try:
        piece = first
        while piece:
            yield piece
            piece = await run_in_threadpool(next, rest, b"")
    finally:
        # An answer that was broken off holds a connection to the storage until its generator ends.
        close = getattr(rest, "close", None)
        if close is not None:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, close))
