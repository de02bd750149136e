"""Reading vLLM's metrics (docs.vllm.ai, Production Metrics) in Prometheus' text format. Pure."""

import math
import re
from collections.abc import Sequence
from typing import Final

from batchwright.worker.server.concurrency import ServerLoad

_WAITING: Final = b"num_requests_waiting"
_RUNNING: Final = b"num_requests_running"
_CACHE: Final = (b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
"""Its name, and the one before (vllm#18354)."""
_SAMPLE: Final = re.compile(
    rb"^vllm:(num_requests_waiting|num_requests_running|kv_cache_usage_perc|gpu_cache_usage_perc)"
    rb"(?:\{.*\})?[ \t]+(\S+)",
    re.MULTILINE,
)


def read_load(text: bytes) -> ServerLoad | None:
    """The load of a server, all its engines and models together; None where the text doesn't tell it."""
    found: dict[bytes, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        number = _number(value)
        if number is None:
            return None
        found.setdefault(name, []).append(number)
    if _WAITING not in found or _RUNNING not in found:
        return None
    cache = max((max(found[name]) for name in _CACHE if name in found), default=0.0)
    return ServerLoad(int(sum(found[_WAITING])), int(sum(found[_RUNNING])), min(1.0, cache))


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def together(loads: Sequence[ServerLoad]) -> ServerLoad:
    """The load of several servers, of which there is one at least."""
    return ServerLoad(
        waiting=sum(load.waiting for load in loads),
        running=sum(load.running for load in loads),
        kv_cache_usage=max(load.kv_cache_usage for load in loads),
    )
