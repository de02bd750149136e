"""How often a tenant may ask: a bucket of requests that fills up at a steady rate, in this replica's memory alone."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from batchwright.gateway import errors
from batchwright.gateway.principal import Principal
from batchwright.gateway.settings import TenantLimits

TENANTS: Final = 10_000
"""Buckets that are remembered; of more, those go that were asked for longest ago. They have mostly filled up."""
_MINUTE: Final = 60.0


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


class RateLimits:
    """The gateway's `context.RateLimiter`."""

    def __init__(
        self,
        limits: Callable[[str], TenantLimits],
        *,
        clock: Callable[[], float] = time.monotonic,
        tenants: int = TENANTS,
    ) -> None:
        """limits: of a tenant. clock: seconds, from any moment on. tenants: how many are remembered."""
        self._limits = limits
        self._clock = clock
        self._tenants = tenants
        self._lock = Lock()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def check(self, principal: Principal) -> None:
        """Count a request of their namespace; an administrator's own have no bound.

        Raises:
            ApiError: 429, with Retry-After.
        """
        namespace = principal.namespace
        if namespace is None:
            return
        limits = self._limits(namespace)
        if limits.requests_per_minute is None:
            return
        burst = float(limits.burst or limits.requests_per_minute)
        wait = self._take(namespace, limits.requests_per_minute / _MINUTE, burst)
        if wait:
            raise errors.too_many_requests(
                f"Rate limit reached for the namespace {namespace!r}: {limits.requests_per_minute} requests a minute,"
                f" {burst:.0f} at once. Try again in {wait:.1f} s.",
                math.ceil(wait),
            )

    def _take(self, namespace: str, per_second: float, burst: float) -> float:
        with self._lock:
            now = self._clock()
            bucket = self._buckets.get(namespace) or Bucket(burst, now)
            self._buckets[namespace], wait = take(bucket, now, per_second, burst)
            self._buckets.move_to_end(namespace)
            while len(self._buckets) > self._tenants:
                self._buckets.popitem(last=False)
            return wait
