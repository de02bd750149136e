"""The whole stage `run` of the worker over an input file, measured from within while it goes on."""

import asyncio
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from load import Load, Measured, Windows, cpu_seconds, make_body, make_line, measured
from servers.nginx import COMPLETION
from stages import open_stage_in

if TYPE_CHECKING:
    from batchwright.worker.run.progress import RunProgress
    from batchwright.worker.run.runner import Runner
    from batchwright.worker.transport.protocol import Answer

WARM_UP_ROUNDS = 2
"""As the other contenders: so many requests for each connection before the clock starts."""


async def measure_worker(load: Load, *, adaptive: bool, at_once: bool) -> Measured:
    """Plan an input in another process, then run it here until the time is over.

    `at_once`: in place of the transport there is one that answers in the next turn of the event loop, so that what is
    measured is all that the worker does besides.
    """
    with tempfile.TemporaryDirectory(prefix="bench-worker-") as name:
        folder = Path(name)
        fingerprint = await asyncio.to_thread(plan_elsewhere, folder, load)
        if not at_once:
            return await run_here(folder, load, fingerprint, adaptive=adaptive)
        with patch("batchwright.worker.run.stage_run.open_server", lambda stage: AtOnce()):
            return await run_here(folder, load, fingerprint, adaptive=adaptive)


class AtOnce:
    """A transport whose requests cost nothing but a turn of the event loop."""

    def __init__(self) -> None:
        from batchwright.worker.transport.protocol import Answer

        self._answer = Answer(200, {}, COMPLETION.encode())
        self._alive = Answer(200, {}, b"{}")

    async def post(self, path: str, body: bytes, **_: object) -> "Answer":
        await asyncio.sleep(0)
        return self._answer

    async def probe(self, path: str, **_: object) -> "Answer":
        return self._alive

    async def get_each(self, path: str, **_: object) -> "Sequence[Answer]":
        return (self._alive,)

    async def close(self) -> None:
        pass


def plan_elsewhere(folder: Path, load: Load) -> str:
    """Write the input and plan it in a child, whose memory and time don't count; gives the fingerprint."""
    child = multiprocessing.get_context("spawn").Process(target=prepare, args=(folder, load))
    child.start()
    child.join(timeout=120)
    if child.exitcode != 0:
        child.kill()
        raise RuntimeError("the input could not be planned")
    return (folder / "fingerprint").read_text()


def prepare(folder: Path, load: Load) -> None:
    from batchwright.worker.plan import plan

    with (folder / "input.jsonl").open("wb") as file:
        for number in range(load.requests + WARM_UP_ROUNDS * load.concurrency):
            file.write(make_line(number, make_body(number)))
    report = plan(open_stage_in(folder, load.url, requests={}))
    (folder / "fingerprint").write_text(report.fingerprint)


async def run_here(folder: Path, load: Load, fingerprint: str, *, adaptive: bool) -> Measured:
    from batchwright.worker.run.stage_run import run

    watching: list[asyncio.Task[Measured]] = []

    def started(runner: "Runner", progress: "RunProgress") -> None:
        watching.append(asyncio.create_task(watch(runner, progress, load, finished)))

    finished = asyncio.Event()
    requests = {"maxConcurrency": load.concurrency, "concurrency": "Adaptive" if adaptive else "Fixed"}
    stage = open_stage_in(folder, load.url, requests=requests)
    report = await run(stage, fingerprint=fingerprint, run=1, index=0, workers=1, started=started)
    finished.set()
    if report.failed:
        raise RuntimeError(f"{report.failed} requests failed")
    return await watching[0]


async def watch(runner: "Runner", progress: "RunProgress", load: Load, finished: asyncio.Event) -> Measured:
    """Count what is completed in the time, and stop the worker at its end."""

    def completed() -> int:
        return progress.report().completed

    while completed() < WARM_UP_ROUNDS * load.concurrency and not finished.is_set():  # noqa: ASYNC110 - nothing to wait on
        await asyncio.sleep(0.01)
    before, started, cpu_started = completed(), time.perf_counter(), cpu_seconds()
    windows = Windows(completed)
    watching = asyncio.create_task(windows.watch())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(finished.wait(), load.seconds)
    watching.cancel()
    result = measured(completed() - before, started, cpu_started, windows.quiet())
    runner.stop()
    return result
