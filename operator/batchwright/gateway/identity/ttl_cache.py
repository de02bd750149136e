"""Answers that are kept for a time: a bounded number of them, the least used go first."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from batchwright.gateway.recent import RecentValues

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key. Safe to use from several threads."""

    def __init__(self, size: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """size: most values. clock: seconds, from any moment on."""
        self._clock = clock
        self._kept: RecentValues[K, tuple[V, float]] = RecentValues(size)

    def get(self, key: K) -> V | None:
        """A value that is still kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        value, until = found
        return value if self._clock() < until else None

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep a value for so long."""
        self._kept.put(key, (value, self._clock() + seconds))
