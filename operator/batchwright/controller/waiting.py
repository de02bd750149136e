"""Waiting for whatever comes first."""

import asyncio
from collections.abc import Awaitable


async def first_of(*waits: Awaitable[object], seconds: float | None = None) -> None:
    """Wait for the first of several things, at most so long."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
