"""Buckets of requests that fill up at a steady rate: how rates are bounded, in this replica's memory alone."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Bucket:
    """So many requests were left at a moment."""

    left: float
    at: float


def take(bucket: Bucket, now: float, per_second: float, burst: float) -> tuple[Bucket, float]:
    """The bucket after a request, and 0; or the seconds until there is one, and the bucket as it is.

    per_second: requests that come in. burst: requests that it holds.
    """
    left = min(burst, bucket.left + max(0.0, now - bucket.at) * per_second)
    if left >= 1:
        return Bucket(left - 1, now), 0.0
    return Bucket(left, now), (1 - left) / per_second


class Buckets(Generic[K]):
    """Buckets by key, each full at first. Safe to use from several threads."""

    def __init__(self, size: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """size: how many are remembered; of more, those go that were asked for longest ago. They have mostly filled up.
        clock: seconds, from any moment on.
        """
        self._size = size
        self._clock = clock
        self._lock = Lock()
        self._buckets: OrderedDict[K, Bucket] = OrderedDict()

    def take(self, key: K, *, per_second: float, burst: float) -> float:
        """Take a request out of a bucket: 0, or the seconds until there is one."""
        with self._lock:
            now = self._clock()
            bucket = self._buckets.get(key) or Bucket(burst, now)
            self._buckets[key], wait = take(bucket, now, per_second, burst)
            self._buckets.move_to_end(key)
            while len(self._buckets) > self._size:
                self._buckets.popitem(last=False)
            return wait
