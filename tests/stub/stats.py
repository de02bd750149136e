"""What the server counts about itself, and how it shows it: as JSON and as vLLM's metrics."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any

from stub.answers import Counts
from stub.capacity import Capacity
from stub.settings import Settings

_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0, math.inf),
)
"""Upper bounds in seconds of vLLM's histograms."""


class Histogram:
    """How long something took, request by request."""

    def __init__(self) -> None:
        self.sum = 0.0
        self.counts = [0] * len(_BUCKETS)

    def observe(self, seconds: float) -> None:
        self.sum += seconds
        self.counts[bisect_left(_BUCKETS, seconds)] += 1


class Stats:
    """Counters since the start or the last reset; what is in flight outlives a reset."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.clear()

    def clear(self) -> None:
        self.total = 0
        """Requests to the inference endpoints, refused ones too."""
        self.max_in_flight = self.in_flight
        self.by_status: Counter[int] = Counter()
        self.by_fault: Counter[str] = Counter()
        """Requests that got no answer or a broken one, by the switch that did it."""
        self.other: Counter[str] = Counter()
        """Requests to the other paths."""
        self.disconnected = 0
        """Requests whose client left before the answer."""
        self.connections = 0
        """Connections accepted on the main port."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.finished: Counter[str] = Counter()
        self.latency = Histogram()
        """From the wait for a slot to the answer."""
        self.queue_time = Histogram()
        self.inference_time = Histogram()

    def enter(self) -> None:
        self.total += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def answered(self, counts: Counts, finish: str | None) -> None:
        self.prompt_tokens += counts.prompt
        self.cached_tokens += counts.cached
        self.generation_tokens += counts.completion
        self.finished[finish or "stop"] += 1

    def left_slot(self, *, queued: float, total: float) -> None:
        """A request has given its slot back; seconds that it waited for it, and of both together."""
        self.queue_time.observe(queued)
        self.inference_time.observe(total - queued)
        self.latency.observe(total)

    def snapshot(self, capacity: Capacity, open_connections: int) -> dict[str, Any]:
        return {
            "total": self.total,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "running": capacity.running,
            "waiting": capacity.waiting,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "by_fault": dict(self.by_fault),
            "other": dict(self.other),
            "disconnected": self.disconnected,
            "connections": self.connections,
            "open_connections": open_connections,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "generation_tokens": self.generation_tokens,
        }


METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_UNLIMITED_SLOTS = 256
"""vLLM's default of --max-num-seqs on most devices: what the cache holds where no slots are set."""


def metrics_text(stats: Stats, capacity: Capacity, settings: Settings) -> str:
    """Write the metrics a vLLM of 0.32 exposes and that clients steer by, in Prometheus' text format."""
    return "".join(_lines(stats, capacity, settings))


def _lines(stats: Stats, capacity: Capacity, settings: Settings) -> Iterator[str]:
    model = _escaped(settings.models[0] if settings.models else "")
    labels = f'engine="0",model_name="{model}"'
    waiting = capacity.waiting if settings.waiting is None else settings.waiting
    usage = settings.kv_cache_usage
    if usage is None:
        usage = min(1.0, capacity.running / (capacity.slots or _UNLIMITED_SLOTS))
    gauges = (
        ("num_requests_running", "Number of requests in model execution batches.", capacity.running),
        ("num_requests_waiting", "Number of requests waiting to be processed.", waiting),
        ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage),
    )
    for name, text, value in gauges:
        yield f"# HELP vllm:{name} {text}\n# TYPE vllm:{name} gauge\nvllm:{name}{{{labels}}} {float(value)}\n"
    counters = (
        ("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", stats.prompt_tokens),
        ("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", stats.cached_tokens),
        ("num_preemptions", "Cumulative number of preemption from the engine.", 0),
        ("prompt_tokens", "Number of prefill tokens processed.", stats.prompt_tokens),
        ("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", stats.cached_tokens),
        ("generation_tokens", "Number of generation tokens processed.", stats.generation_tokens),
    )
    for name, text, value in counters:
        yield f"# HELP vllm:{name}_total {text}\n# TYPE vllm:{name}_total counter\n"
        yield f"vllm:{name}_total{{{labels}}} {float(value)}\n"
    yield "# HELP vllm:request_success_total Count of successfully processed requests.\n"
    yield "# TYPE vllm:request_success_total counter\n"
    for reason in ("stop", "length", "abort", "error", "repetition"):
        count = float(stats.finished[reason])
        yield f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="{model}"}} {count}\n'
    histograms = (
        ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", stats.latency),
        ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", stats.queue_time),
        (
            "request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request.",
            stats.inference_time,
        ),
    )
    for name, text, histogram in histograms:
        yield f"# HELP vllm:{name} {text}\n# TYPE vllm:{name} histogram\n"
        yield from _samples(f"vllm:{name}", histogram, labels)


def _samples(name: str, histogram: Histogram, labels: str) -> Iterator[str]:
    total = 0
    for bound, count in zip(_BUCKETS, histogram.counts, strict=True):
        total += count
        le = "+Inf" if math.isinf(bound) else bound
        yield f'{name}_bucket{{{labels},le="{le}"}} {float(total)}\n'
    yield f"{name}_count{{{labels}}} {float(total)}\n{name}_sum{{{labels}}} {histogram.sum}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
