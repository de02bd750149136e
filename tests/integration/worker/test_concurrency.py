"""Requests in flight against a real server with a known knee."""

import asyncio
import statistics
from typing import Any

import pytest

from batchwright.api.reports import PlanReport
from batchwright.worker.run.stage_run import run
from fixtures.worker import JobUnderTest, chat_line
from stub.harness import StubProcess

SLOTS = 6
TOKENS = 40
"""Of an answer. Of shorter ones, more may wait for a server's next step."""
LOOK_SECONDS = 0.05


async def _limits_of_workers(job: JobUnderTest, planned: PlanReport, workers: int) -> list[int]:
    """The limits of all workers together, again and again once all have begun."""
    progress: list[Any] = []
    seen: list[int] = []

    async def look() -> None:
        while True:
            if len(progress) == workers:
                seen.append(sum(one.report().concurrency for one in progress))
            await asyncio.sleep(LOOK_SECONDS)

    def work(index: int) -> Any:
        return run(
            job.stage(),
            fingerprint=planned.fingerprint,
            run=1,
            index=index,
            workers=workers,
            started=lambda _, one: progress.append(one),
        )

    looking = asyncio.create_task(look())
    await asyncio.gather(*map(work, range(workers)))
    looking.cancel()
    return seen


def limits_of(job: JobUnderTest, *, lines: int, workers: int = 1, **requests: Any) -> list[int]:
    said = [{"role": "user", "content": "word " * TOKENS}]
    job = job.input(chat_line(f"request-{number}", messages=said) for number in range(lines))
    job = job.with_spec(sharding={"linesPerShard": 100}, requests=requests)
    planned = job.plan()
    seen = asyncio.run(_limits_of_workers(job, planned, workers))
    report = job.merge(planned)
    assert (report.request_counts.completed, report.request_counts.failed) == (lines, 0)
    return seen


@pytest.mark.parametrize("workers", [1, 3])
def test_it_settles_near_the_knee_that_the_metrics_show(job: JobUnderTest, stub: StubProcess, workers: int) -> None:
    stub.switch(slots=SLOTS, delay="0.05")
    seen = limits_of(job, lines=700, workers=workers, maxConcurrency=64)
    later = statistics.median(seen[len(seen) // 2 :])
    assert SLOTS / 2 <= later <= 2 * SLOTS
    assert stub.stats().other["/metrics"] > 0


def test_it_settles_below_the_point_of_refusal(job: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(slots=SLOTS, queue=SLOTS // 2, delay="0.05")
    seen = limits_of(job, lines=500, maxConcurrency=64)
    assert statistics.median(seen[len(seen) // 2 :]) <= 2 * SLOTS


def test_a_fixed_limit_stays_and_asks_for_no_metrics(job: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(slots=SLOTS, delay="0.02")
    seen = limits_of(job, lines=400, maxConcurrency=48, concurrency="Fixed")
    assert set(seen) == {48}
    assert "/metrics" not in stub.stats().other
