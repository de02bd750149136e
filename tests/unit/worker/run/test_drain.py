"""SIGTERM meets a worker at any moment."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from batchwright.api.reports import Progress
from batchwright.storage.errors import AccessDenied
from batchwright.worker.run.drain import Drain
from batchwright.worker.run.stage_run import Started
from unit.worker.run.running import ScriptedTransport, Work, answer_all, hold_all, until


async def never_begun(started: Started) -> Progress:
    raise AssertionError("it must not begin")


async def test_before_the_worker_is_asked_to_begin() -> None:
    drain = Drain(60.0)
    drain.request()
    assert await drain.run(never_begun) is None
    assert drain.interrupted


async def test_while_the_worker_reads_its_plan() -> None:
    drain, reading = Drain(60.0), asyncio.Event()

    async def work(started: Started) -> Progress:
        reading.set()
        await asyncio.sleep(3600)
        raise AssertionError

    running = asyncio.create_task(drain.run(work))
    await reading.wait()
    assert drain.progress() is None
    drain.request()
    assert await asyncio.wait_for(running, 10) is None
    assert drain.interrupted


def worker_of(work: Work, transport: ScriptedTransport) -> Callable[[Started], Coroutine[Any, Any, Progress]]:
    async def begin(started: Started) -> Progress:
        runner = work.runner(transport)
        started(runner, runner._progress)
        return await runner.run()

    return begin


async def test_at_work_what_is_in_flight_is_waited_for(tmp_path: Path) -> None:
    work, transport, drain = Work(tmp_path, lines=20), ScriptedTransport(hold_all), Drain(60.0)
    running = asyncio.create_task(drain.run(worker_of(work, transport)))
    await until(lambda: transport.in_flight == 4)
    drain.request()
    drain.request()
    transport.release()
    report = await asyncio.wait_for(running, 10)
    assert report is not None
    assert report.completed == 4
    assert drain.interrupted


async def test_what_never_answers_is_given_up_before_the_grace_period_ends(tmp_path: Path) -> None:
    work, transport, drain = Work(tmp_path, lines=20), ScriptedTransport(hold_all), Drain(0.05)
    running = asyncio.create_task(drain.run(worker_of(work, transport)))
    await until(lambda: transport.in_flight == 4)
    drain.request()
    report = await asyncio.wait_for(running, 10)
    assert report is not None
    assert report.completed == 0
    assert drain.interrupted


async def test_a_worker_that_just_ended_is_not_interrupted(tmp_path: Path) -> None:
    drain = Drain(60.0)
    await drain.run(worker_of(Work(tmp_path, lines=5), ScriptedTransport(answer_all)))
    drain.request()
    assert not drain.interrupted


async def test_a_failure_comes_out_as_it_is(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=5)
    work.store.fail = lambda operation, key: AccessDenied("PutObject", key) if "claims" in key else None
    with pytest.raises(AccessDenied):
        await Drain(60.0).run(worker_of(work, ScriptedTransport(answer_all)))
