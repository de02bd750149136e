"""An adaptive limit as it is told of answers and samples of the metrics. The clock is a number."""

from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.concurrency import Limit, ServerLoad, Signal

ROOM = ServerLoad(waiting=0, running=1000, kv_cache_usage=0.1)
QUEUE = ServerLoad(waiting=500, running=1000, kv_cache_usage=0.1)


def answer(limit: Limit, times: int, *, now: float, seconds: float = 1.0) -> None:
    """So many answers, each while the limit is used to the full."""
    for _ in range(times):
        limit.finished(now, seconds, limit.limit, Signal.SUCCESS)


def grown(maximum: int = 64) -> AdaptiveLimit:
    """A limit that has come to its maximum; it is second 10."""
    limit = AdaptiveLimit(maximum)
    for second in range(10):
        answer(limit, limit.limit, now=float(second))
    assert limit.limit == maximum
    return limit
