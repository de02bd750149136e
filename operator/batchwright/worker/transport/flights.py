"""Giving up requests that are in flight to a server that is gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from batchwright.worker.transport.errors import ConnectionLost
from batchwright.worker.transport.protocol import Answer


class Flights:
    """Requests in flight to one address, which can be ended from outside.

    Ending them by closing their connections would wait for what is still to be written, which a server that
    no longer reads never lets happen.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dropped: set[asyncio.Task[Any]] = set()

    async def run(self, request: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for an answer.

        Raises:
            ConnectionLost: `drop` was called meanwhile.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        self._tasks.add(task)
        try:
            return await request
        except asyncio.CancelledError:
            # Like asyncio.timeout: someone else's wish to end the task goes first.
            if task in self._dropped and task.cancelling() <= cancelling + 1:
                raise ConnectionLost("the replica stopped answering, so the request was given up") from None
            raise
        finally:
            self._tasks.discard(task)
            if task in self._dropped:
                self._dropped.discard(task)
                task.uncancel()

    def drop(self) -> None:
        """End all that is in flight now."""
        for task in self._tasks - self._dropped:
            self._dropped.add(task)
            task.cancel()
