"""Simulated time: what is to happen, in its order."""

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """Calls what was asked for at its time; nothing here waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, time: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def every(self, seconds: float, call: Callable[[], None], *, first: float = 0.0) -> None:
        def again() -> None:
            call()
            self.after(seconds, again)

        self.at(first, again)

    def run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, call = heapq.heappop(self._events)
            call()
        self.now = end
