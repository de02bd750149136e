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
_TOKENS: Final = b"generation_tokens_total"
_ACCEPTED: Final = b"spec_decode_num_accepted_tokens_total"
_STARTED: Final = b"e2e_request_latency_seconds_created"
_TOTALS: Final = (_COUNT, _SECONDS, _QUEUED, _WORKED_ON, _TOKENS)
_LOAD: Final = (_WAITING, _RUNNING, *_CACHE)
LONGEST_GAP: Final = 12.5
"""Seconds between two samples, after which the answers between them tell of too long a time."""
PLAUSIBLE: Final = 4.0
"""Between two samples of one server its answers can't tell of many times more requests in its engine than it shows."""
_SAMPLE: Final = re.compile(
    rb"^vllm:(" + b"|".join((*_LOAD, *_TOTALS, _ACCEPTED, _STARTED)) + rb")"
    rb"(?:\{.*\})?[ \t]+(\S+)",
    re.MULTILINE,
)


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
    steps: float = 0.0
    """Of all requests together, one for each token that was generated; of those that a draft model guessed, only the
    first."""
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
    if not all(0 <= number < math.inf for name in _LOAD for number in found.get(name, ())):
        return None
    caches = next((found[name] for name in _CACHE if name in found), [0.0])
    load = ServerLoad(
        waiting=int(sum(found[_WAITING])),
        running=int(sum(found[_RUNNING])),
        kv_cache_usage=min(1.0, statistics.fmean(caches)),
        fullest_kv_cache=min(1.0, max(caches)),
    )
    count, seconds, queued, worked_on, tokens = (sum(found.get(name, (math.nan,))) for name in _TOTALS)
    steps = tokens - sum(found.get(_ACCEPTED, ()))
    # A sum may be below 0: vLLM counts a request that failed before it was scheduled with a time of -1 million seconds.
    if not all(map(math.isfinite, (count, seconds, queued, worked_on, steps))):
        return Metrics(load, None)
    return Metrics(load, AnswerTotals(count, seconds, queued, worked_on, steps, sum(found.get(_STARTED, ()))))


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
            fullest_kv_cache=max(load.fullest_kv_cache for load in loads),
        ),
        _sum(totals) if len(totals) == len(several) else None,
    )


def _sum(totals: Sequence[AnswerTotals]) -> AnswerTotals:
    return AnswerTotals(
        count=sum(one.count for one in totals),
        seconds=sum(one.seconds for one in totals),
        queued=sum(one.queued for one in totals),
        worked_on=sum(one.worked_on for one in totals),
        steps=sum(one.steps for one in totals),
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
    steps = after.steps - before.steps
    if count < 1 or min(queued, worked_on, steps) < 0 or not 0 < queued + worked_on <= spent:
        return None
    shown = max(1, earlier.load.requests, later.load.requests)
    if before.started != after.started or (not after.started and queued + worked_on > PLAUSIBLE * shown * seconds):
        return None
    return LatestAnswers(int(count), seconds, spent / count, queued / count, worked_on / count, steps / count)
