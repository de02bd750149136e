"""Reading vLLM's metrics (docs.vllm.ai, Production Metrics) in Prometheus' text format. Pure."""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batchwright.worker.server.concurrency import LatestAnswers, ServerLoad

_WAITING: Final = b"num_requests_waiting"
_RUNNING: Final = b"num_requests_running"
_CACHE: Final = (b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
"""Its name, and the one before (vllm#18354)."""
_COUNT: Final = b"e2e_request_latency_seconds_count"
_SECONDS: Final = b"e2e_request_latency_seconds_sum"
_QUEUED: Final = b"request_queue_time_seconds_sum"
_WORKED_ON: Final = b"request_inference_time_seconds_sum"
_TOKENS: Final = b"request_generation_tokens_sum"
_STARTED: Final = b"e2e_request_latency_seconds_created"
_TOTALS: Final = (_COUNT, _SECONDS, _QUEUED, _WORKED_ON, _TOKENS)
_LOAD: Final = (_WAITING, _RUNNING, *_CACHE)
LONGEST_GAP: Final = 10.0
"""Seconds between two samples, after which the answers between them tell of too long a time."""
PLAUSIBLE: Final = 4.0
"""Between two samples of one server its answers can't tell of many times more requests in it than it shows."""
_SAMPLE: Final = re.compile(
    rb"^vllm:(" + b"|".join((*_LOAD, *_TOTALS, _STARTED)) + rb")"
    rb"(?:\{.*\})?[ \t]+(\S+)",
    re.MULTILINE,
)
_WAITING_FOR_ROOM: Final = re.compile(
    rb'^vllm:num_requests_waiting_by_reason\{(?:.*,)?reason="capacity"(?:,.*)?\}[ \t]+(\S+)', re.MULTILINE
)
"""The others wait for something of their own: a grammar, an adapter, keys and values from elsewhere (vllm 0.20)."""


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """What a server has counted since its start: answers, and seconds of all of them together."""

    count: float = 0.0
    seconds: float = 0.0
    """In the server, from their arrival to their end."""
    queued: float = 0.0
    """In the engine's queue."""
    worked_on: float = 0.0
    """In the engine."""
    tokens: float = 0.0
    """That were generated for them."""
    started: float = 0.0
    """When it began to count, in seconds since 1970: another one for another server, and after a restart.
    0 where it doesn't say so: a vLLM of several API servers."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a server tells of its requests."""

    load: ServerLoad
    totals: AnswerTotals | None
    """None where it doesn't count answers."""


def read_metrics(text: bytes) -> Metrics | None:
    """The numbers of a server, all its engines and models together; None where the text doesn't tell its load."""
    found: dict[bytes, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        found.setdefault(name, []).append(_number(value))
    if _WAITING not in found or _RUNNING not in found:
        return None
    found[_WAITING] = [_number(value) for value in _WAITING_FOR_ROOM.findall(text)] or found[_WAITING]
    if not all(0 <= number < math.inf for name in _LOAD for number in found.get(name, ())):
        return None
    cache = next((statistics.fmean(found[name]) for name in _CACHE if name in found), 0.0)
    load = ServerLoad(int(sum(found[_WAITING])), int(sum(found[_RUNNING])), min(1.0, cache))
    count, seconds, queued, worked_on, tokens = (sum(found.get(name, (math.nan,))) for name in _TOTALS)
    # A sum may be below 0: vLLM counts a request that failed before it was scheduled with a time of -1 million seconds.
    if not all(map(math.isfinite, (count, seconds, queued, worked_on, tokens))):
        return Metrics(load, None)
    return Metrics(load, AnswerTotals(count, seconds, queued, worked_on, tokens, sum(found.get(_STARTED, ()))))


def _number(value: bytes) -> float:
    """Not a number, where it isn't one."""
    try:
        return float(value)
    except ValueError:
        return math.nan


def together(several: Sequence[Metrics]) -> Metrics:
    """The numbers of several servers, of which there is one at least."""
    loads = [one.load for one in several]
    totals = [one.totals for one in several if one.totals is not None]
    return Metrics(
        ServerLoad(
            waiting=sum(load.waiting for load in loads),
            running=sum(load.running for load in loads),
            kv_cache_usage=statistics.fmean(load.kv_cache_usage for load in loads),
        ),
        _sum(totals) if len(totals) == len(several) else None,
    )


def _sum(totals: Sequence[AnswerTotals]) -> AnswerTotals:
    return AnswerTotals(
        count=sum(one.count for one in totals),
        seconds=sum(one.seconds for one in totals),
        queued=sum(one.queued for one in totals),
        worked_on=sum(one.worked_on for one in totals),
        tokens=sum(one.tokens for one in totals),
        started=sum(one.started for one in totals),
    )


def latest_answers(earlier: Metrics | None, later: Metrics, seconds: float) -> LatestAnswers | None:
    """The answers between two samples that lie so many seconds apart.

    None where they can't be told: the sums are of another server, or of another start; requests were longer in the
    engine than in the server; the samples are far apart.
    """
    if earlier is None or earlier.totals is None or later.totals is None or not 0 < seconds <= LONGEST_GAP:
        return None
    before, after = earlier.totals, later.totals
    count, spent = after.count - before.count, after.seconds - before.seconds
    queued, worked_on = after.queued - before.queued, after.worked_on - before.worked_on
    tokens = after.tokens - before.tokens
    if count < 1 or min(queued, worked_on, tokens) < 0 or not 0 < queued + worked_on <= spent:
        return None
    shown = max(1, *(one.load.waiting + one.load.running for one in (earlier, later)))
    if before.started != after.started or (not after.started and spent > PLAUSIBLE * shown * seconds):
        return None
    return LatestAnswers(int(count), seconds, spent / count, queued / count, worked_on / count, tokens / count)
