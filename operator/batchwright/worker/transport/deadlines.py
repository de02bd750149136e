"""Deadlines of requests, with one timer for all of one length.

As asyncio.timeout, which sets a timer for each request and takes it back: nearly none of them ever goes off, and it
costs as much as a twentieth of a request.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

_EARLY: Final = 0.001
"""A loop whose clock counts milliseconds may call a timer so many seconds before its time."""


class Deadlines:
    """Makes deadlines, all in one event loop."""

    def __init__(self) -> None:
        self._by_length: dict[float, _Queue] = {}

    def within(self, seconds: float) -> "Deadline":
        """A deadline in so many seconds, from the entry of its block on."""
        return Deadline(self, seconds)

    def queue(self, seconds: float) -> "_Queue":
        """Where deadlines of this length stand."""
        queue = self._by_length.get(seconds)
        if queue is None:
            queue = self._by_length[seconds] = _Queue(seconds, self._by_length)
        return queue


class Deadline:
    """A block of a task that ends with TimeoutError when the time is over. Of several cancellations of the task, those
    of others go first, as with asyncio.timeout.
    """

    __slots__ = ("_before", "_deadlines", "_expired", "_left", "_queue", "_seconds", "_task", "_timer", "end")

    end: float

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self._seconds = seconds
        self._expired = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before = task, task.cancelling()
        self._queue = self._deadlines.queue(self._seconds)
        self._queue.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """The time is over."""
        self._expired = True
        self._task.cancel()

    def stand_still(self) -> None:
        """Let no time pass until `go_on`."""
        self._queue.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self._left = self.end - asyncio.get_running_loop().time()

    def go_on(self) -> None:
        """Let time pass again."""
        if not self._expired:
            loop = asyncio.get_running_loop()
            self.end = loop.time() + self._left
            self._timer = loop.call_at(self.end, self.expire)


class _Queue:
    """Deadlines of one length, which end in the order in which they began."""

    def __init__(self, seconds: float, queues: "dict[float, _Queue]") -> None:
        self._seconds = seconds
        self._queues = queues
        self._deadlines: dict[Deadline, None] = {}
        self._loop = asyncio.get_running_loop()
        self._look_at(self._loop.time() + seconds)

    def add(self, deadline: Deadline) -> None:
        deadline.end = self._loop.time() + self._seconds
        self._deadlines[deadline] = None

    def remove(self, deadline: Deadline) -> None:
        self._deadlines.pop(deadline, None)

    def _look_at(self, moment: float) -> None:
        self._loop.call_at(moment, self._look)

    def _look(self) -> None:
        """End what is due. Between two looks no deadline can both begin and end, so that one timer is enough."""
        now = self._loop.time() + _EARLY
        while self._deadlines:
            first = next(iter(self._deadlines))
            if first.end > now:
                self._look_at(first.end)
                return
            del self._deadlines[first]
            first.expire()
        if self._queues.get(self._seconds) is self:
            del self._queues[self._seconds]
