"""Requests that are being worked on: they wait out their delay, freeze, or are aborted."""

import asyncio
from typing import Literal

Outcome = Literal["done", "aborted"]


class Flight:
    """The clock of every request in flight, in one place, so that all can be frozen or aborted at once."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[Outcome]] = set()
        self._due: set[asyncio.Future[Outcome]] = set()
        self._hanging: set[asyncio.Future[None]] = set()
        self._frozen = False

    async def wait(self, seconds: float) -> Outcome:
        """Wait so many seconds, and for as long as everything is frozen, unless aborted before."""
        if seconds <= 0 and not self._frozen:
            return "done"
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        timer = loop.call_later(seconds, self._expire, future)
        self._waiting.add(future)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiting.discard(future)
            self._due.discard(future)

    async def hang(self) -> None:
        """Wait until the client leaves (which cancels this) or `release` is called."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hanging.add(future)
        try:
            await future
        finally:
            self._hanging.discard(future)

    def freeze(self, frozen: bool) -> None:
        self._frozen = frozen
        if not frozen:
            for future in list(self._due):
                _finish(future, "done")

    def abort(self) -> int:
        """End the wait of all at once; return how many there were. What hangs goes on hanging."""
        waiting = list(self._waiting)
        for future in waiting:
            _finish(future, "aborted")
        return len(waiting)

    def release(self) -> None:
        """Let go of what hangs."""
        for future in list(self._hanging):
            if not future.done():
                future.set_result(None)

    def _expire(self, future: asyncio.Future[Outcome]) -> None:
        if self._frozen:
            self._due.add(future)
        else:
            _finish(future, "done")


def _finish(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
