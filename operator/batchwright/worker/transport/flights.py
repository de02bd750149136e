"""Giving up requests that are in flight to a server that is gone."""

import asyncio
from typing import Any


class Flights:
    """Tasks whose requests are in flight to one address, and which can be made to give them up.

    Closing the connections instead would wait for what is still to be written, which a server that no longer
    reads never lets happen. It isn't a coroutine around the request, since each layer costs every request.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], int] = {}
        self._dropped: set[asyncio.Task[Any]] = set()

    def begin(self) -> asyncio.Task[Any]:
        """The current task is about to wait for an answer."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = task.cancelling()
        return task

    def is_dropped(self, task: asyncio.Task[Any]) -> bool:
        """Whether a CancelledError that ended the wait means that the request was given up.

        As with asyncio.timeout, someone else's wish to end the task goes first.
        """
        return task in self._dropped and task.cancelling() <= self._tasks[task] + 1

    def end(self, task: asyncio.Task[Any]) -> None:
        """The wait is over, whatever came of it."""
        del self._tasks[task]
        if self._dropped and task in self._dropped:
            self._dropped.discard(task)
            task.uncancel()

    def drop(self) -> None:
        """Give up all that is in flight now."""
        for task in self._tasks.keys() - self._dropped:
            self._dropped.add(task)
            task.cancel()
