"""A BatchJob and the load of the server: concurrency by the engine's metrics, and priority over other requests."""

import re
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from hack.vllm.serving import VllmServer

from batchwright.worker.server.adaptive_limit import INITIAL_LIMIT
from batchwright.worker.server.load import Metrics, latest_answers, read_metrics
from fixtures.worker import JobUnderTest, folder_place, wait_until
from vllm.batches.lines import EMBEDDINGS, RUNNING, WAITING, gauge, line, lines
from vllm.flags import EMBEDDING_MODEL, SLOTS

LOOK_SECONDS = 0.1


@dataclass
class Sightings:
    """What was seen while a worker was at work, again and again."""

    limits: list[int] = field(default_factory=list)
    """Requests in flight that it allowed itself."""
    engine: list[int] = field(default_factory=list)
    """Requests that the engine had, at work and waiting."""


def watched(job: JobUnderTest, vllm: VllmServer) -> Sightings:
    """Run the job to its end, and look at its limit and at the engine meanwhile."""
    seen, planned = Sightings(), job.plan()
    with job.working(planned) as worker:
        while not worker.ending.done():
            seen.limits.append(worker.progress().concurrency or 0)
            seen.engine.append(gauge(vllm.url, RUNNING, WAITING))
            threading.Event().wait(LOOK_SECONDS)
        worker.end()
    assert job.merge(planned).request_counts.failed == 0
    return seen


def later(numbers: Sequence[int]) -> float:
    """Where they settle."""
    return statistics.median(numbers[len(numbers) // 2 :])


@pytest.mark.vllm_short
def test_concurrency_grows_up_to_its_bound_while_the_engines_metrics_are_read(
    job: JobUnderTest, vllm: VllmServer
) -> None:
    most = SLOTS - 4
    job = job.with_spec(requests={"maxConcurrency": most}).input(lines(120, max_tokens=400, ignore_eos=True))
    asked = vllm.log.read_text().count("GET /metrics")
    seen = watched(job, vllm)
    assert INITIAL_LIMIT < max(seen.limits) <= most
    assert INITIAL_LIMIT < max(seen.engine) <= most
    assert vllm.log.read_text().count("GET /metrics") > asked + len(seen.engine), "the worker asked too"


def test_concurrency_settles_near_what_the_engine_works_on_at_once(job: JobUnderTest, vllm: VllmServer) -> None:
    job = job.with_spec(requests={"maxConcurrency": 128}).input(lines(800, max_tokens=48, ignore_eos=True))
    seen = watched(job, vllm)
    assert SLOTS / 2 <= later(seen.limits) <= 2 * SLOTS


def test_answers_of_one_token_are_no_queue(job: JobUnderTest, vllm: VllmServer) -> None:
    job = job.with_spec(requests={"maxConcurrency": 4 * SLOTS}).input(lines(4000, max_tokens=1))
    assert later(watched(job, vllm).limits) >= SLOTS


def test_embeddings_are_no_queue(embedding_job: JobUnderTest, vllm_embedding: VllmServer) -> None:
    texts = (line(f"text-{n}", EMBEDDINGS, model=EMBEDDING_MODEL, input=f"Text {n}.") for n in range(4000))
    job = embedding_job.with_spec(requests={"maxConcurrency": 4 * SLOTS}).input(texts)
    assert later(watched(job, vllm_embedding).limits) >= SLOTS


@pytest.mark.vllm_short
def test_the_server_tells_where_its_answers_spent_their_time(job: JobUnderTest, vllm: VllmServer) -> None:
    before, began = _shown(vllm), time.monotonic()
    job.input(lines(8)).complete()
    latest = latest_answers(before, _shown(vllm), seconds=1.0)
    assert latest is not None
    assert (latest.count, latest.steps) == (8, 8)
    assert 0 < latest.worked_on <= latest.seconds <= time.monotonic() - began


def _shown(vllm: VllmServer) -> Metrics:
    metrics = read_metrics(httpx.get(f"{vllm.url}/metrics", trust_env=False, timeout=30).content)
    assert metrics is not None
    assert metrics.totals is not None
    assert metrics.totals.started > 1e9, "it says when it began to count"
    return metrics


@pytest.mark.vllm_short
def test_a_lower_priority_value_overtakes_a_full_queue(job: JobUnderTest, vllm: VllmServer) -> None:
    asked = {"max_tokens": 48, "ignore_eos": True}
    many = {"priority": 10, "concurrency": "Fixed", "maxConcurrency": 5 * SLOTS}
    background = job.with_spec(requests=many).input(lines(8000, **asked))
    few = {"priority": 0, "concurrency": "Fixed", "maxConcurrency": SLOTS // 2}
    urgent = job.at(folder_place(job.folder / "urgent")).with_spec(requests=few).input(lines(8 * SLOTS, **asked))
    planned, urgently_planned = background.plan(), urgent.plan()
    others = background.start_worker(planned)
    wait_until(lambda: gauge(vllm.url, WAITING) >= 3 * SLOTS)
    assert urgent.start_worker(urgently_planned, spool="urgent").wait() == 0
    others.kill()
    wait_until(lambda: gauge(vllm.url, RUNNING, WAITING) == 0)
    overtaking = _overtaking(vllm.log, urgently_planned.fingerprint, planned.fingerprint)
    assert len(overtaking) == 8 * SLOTS
    queues = [(here, ended) for here, ended in overtaking if here >= 3 * SLOTS]
    assert queues, "there was a queue to overtake"
    # Most, since the log is the API server's, and it may be some answers behind the engine. In order of arrival: none.
    assert sum(ended < here - SLOTS for here, ended in queues) > len(queues) / 2, overtaking


def _overtaking(log: Path, urgent: str, others: str) -> list[tuple[int, int]]:
    """For each urgent request how many of the others the server had when it came, and how many it answered first.

    In the order of the server's own log: when a client on a busy machine gets to send and to read says nothing of it.
    """
    arrived: dict[str, tuple[int, int]] = {}
    overtaking: list[tuple[int, int]] = []
    here = gone = 0
    for came, request in re.findall(r"(?:(Received request)|Generated response) (\S+):", log.read_text()):
        if others in request:
            here, gone = (here + 1, gone) if came else (here - 1, gone + 1)
        elif urgent in request and came:
            arrived[request] = here, gone
        elif urgent in request:
            then_here, then_gone = arrived[request]
            overtaking.append((then_here, gone - then_gone))
    return overtaking
