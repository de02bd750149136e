"""Answers that are kept for a time: a bounded number of them, the least used go first."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key. Safe to use from several threads."""

    def __init__(self, size: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """size: most values. clock: seconds, from any moment on."""
        self._size = size
        self._clock = clock
        self._lock = Lock()
        self._kept: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """A value that is still kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            value, until = found
            if self._clock() >= until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return value

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep a value for so long."""
        with self._lock:
            self._kept[key] = (value, self._clock() + seconds)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
