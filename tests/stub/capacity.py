"""A server that works on so many requests at once: the known knee, and the queue before it."""

import asyncio
import heapq


class QueueFullError(Exception):
    """No place was left in the queue."""


class Capacity:
    """Slots with a queue, the lowest priority value first, then first come first served, as in vLLM.

    Throughput grows with concurrency up to `slots / delay` requests a second, and latency beyond.
    """

    def __init__(self) -> None:
        self.running = 0
        self.waiting = 0
        self.slots: int | None = None
        self.queue: int | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0

    def limit(self, slots: int | None, queue: int | None) -> None:
        """Change the limits; what already waits keeps its place."""
        self.slots, self.queue = slots, queue
        self._fill()

    async def take(self, priority: int) -> None:
        """Take a slot, or wait for one. Raises QueueFullError where too many wait already."""
        if self.slots is None or self.running < self.slots:
            self.running += 1
            return
        if self.queue is not None and self.waiting >= self.queue:
            raise QueueFullError
        turn = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._waiting, (priority, self._sequence, turn))
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self.waiting -= 1
            else:
                # The turn came in the same moment in which the client left: pass it on.
                self.give_back()
            raise

    def give_back(self) -> None:
        self.running -= 1
        self._fill()

    def _fill(self) -> None:
        while self._waiting and (self.slots is None or self.running < self.slots):
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                self.running += 1
                self.waiting -= 1
                turn.set_result(None)
