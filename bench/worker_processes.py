"""Real workers on one input, each in a process of its own, with the order of sending as one wishes."""

import json
import multiprocessing
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orders
from stages import open_stage_in

if TYPE_CHECKING:
    from batchwright.worker.stage import Stage

START_SECONDS, RUN_SECONDS = 60.0, 900.0


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, and by how many workers."""

    folder: Path
    url: str
    lines_per_shard: int
    workers: int
    concurrency: int
    """Requests in flight for each worker: fixed, so that nothing but the order makes a difference."""
    order: str = orders.WORKERS_OWN
    """One of orders.ORDERS."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How long it took, in seconds of the wall clock (time.time)."""

    began: float
    finished: Sequence[float]
    """When each worker was done."""

    @property
    def seconds(self) -> float:
        return max(self.finished) - self.began


def write_input(folder: Path, bodies: Iterable[Mapping[str, Any]], path: str = "/v1/chat/completions") -> None:
    """Write an input of one request for each body."""
    with (folder / "input.jsonl").open("w") as file:
        for number, body in enumerate(bodies):
            line = {"custom_id": f"line-{number}", "method": "POST", "url": path, "body": body}
            file.write(json.dumps(line) + "\n")


def open_work(work: Work, spool: str = "spool") -> "Stage":
    return open_stage_in(
        work.folder,
        work.url,
        requests={"maxConcurrency": work.concurrency, "concurrency": "Fixed"},
        sharding={"linesPerShard": work.lines_per_shard, "parallelism": work.workers},
        spool=spool,
    )


def run_workers(work: Work, fingerprint: str, late: Mapping[int, float] | None = None) -> Ran:
    """Start all workers at the same moment, but for those that are `late` by some seconds, and wait for their end.

    Raises:
        RuntimeError: one of them failed.
    """
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(work.workers + 1)
    finished = context.SimpleQueue()
    late = late or {}
    workers = [
        context.Process(target=_work, args=(work, fingerprint, index, late.get(index, 0.0), (ready, finished)))
        for index in range(work.workers)
    ]
    for worker in workers:
        worker.start()
    try:
        ready.wait(START_SECONDS)
        began = time.time()
        for worker in workers:
            worker.join(RUN_SECONDS)
            if worker.exitcode != 0:
                raise RuntimeError("a worker failed")
        return Ran(began, [finished.get() for _ in workers])
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _work(work: Work, fingerprint: str, index: int, late: float, meeting: tuple[Any, Any]) -> None:
    import uvloop

    from batchwright.worker.run.stage_run import run

    orders.use(work.order)
    stage = open_work(work, f"spool-{index}")
    ready, finished = meeting
    ready.wait(START_SECONDS)
    time.sleep(late)
    report = uvloop.run(
        run(stage, fingerprint=fingerprint, run=1, index=index, workers=work.workers, started=lambda *_: None)
    )
    if report.failed:
        raise RuntimeError(f"{report.failed} requests failed: see whether the server takes them")
    finished.put(time.time())
