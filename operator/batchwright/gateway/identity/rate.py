"""How often a tenant may ask, in this replica's memory alone."""

import math
import time
from collections.abc import Callable
from typing import Final

from batchwright.gateway import errors
from batchwright.gateway.identity.buckets import Buckets
from batchwright.gateway.principal import Principal
from batchwright.gateway.settings import TenantLimits

TENANTS: Final = 10_000
"""Tenants that are remembered."""
_MINUTE: Final = 60.0


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
        self._buckets: Buckets[str] = Buckets(tenants, clock=clock)

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
        wait = self._buckets.take(namespace, per_second=limits.requests_per_minute / _MINUTE, burst=burst)
        if wait:
            raise errors.too_many_requests(
                f"Rate limit reached for the namespace {namespace!r}: {limits.requests_per_minute} requests a minute,"
                f" {burst:.0f} at once. Try again in {wait:.1f} s.",
                math.ceil(wait),
            )
