"""A bound on the bytes that are held at once, whatever the number of requests."""

import asyncio


class ByteBudget:
    """Taken by one task, given back by many. One piece that is larger than the whole budget gets it alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._given_back = asyncio.Event()

    async def acquire(self, size: int) -> None:
        """Wait until there is room."""
        while self._held and self._held + size > self.limit:
            self._given_back.clear()
            await self._given_back.wait()
        self._held += size

    def release(self, size: int) -> None:
        """Give bytes back."""
        self._held -= size
        self._given_back.set()
