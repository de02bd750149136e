"""A server that isn't there yet, or goes in mid-run: its model takes long to load, and nothing is lost or charged."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from hack.vllm.installation import Installation
from hack.vllm.serving import START_SECONDS, VllmServer, vllm_server

from batchwright.api.reports import PlanReport, Progress
from fixtures.worker import JobUnderTest, folder_place, ids, wait_until
from vllm.batches.lines import lines
from vllm.flags import MAX_MODEL_LENGTH, SLOTS

LINES = 300
IN_FLIGHT = 8
Server = Callable[[], AbstractContextManager[VllmServer]]


@pytest.fixture
def server(installation: Installation, tmp_path: Path, port: int) -> Server:
    """Starts a server, at the same address each time."""
    flags = ("--max-model-len", str(MAX_MODEL_LENGTH), "--max-num-seqs", str(SLOTS))
    return lambda: vllm_server(installation, *flags, port=port, log=tmp_path / "vllm.log")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def job(tmp_path: Path, port: int) -> Iterator[JobUnderTest]:
    """300 requests, eight at once, without any retry: one that is charged once has failed."""
    made = JobUnderTest(folder_place(tmp_path / "volume"), tmp_path, f"http://127.0.0.1:{port}")
    requests = {"maxConcurrency": IN_FLIGHT, "retries": 0}
    wanted = lines(LINES, max_tokens=64, ignore_eos=True)
    yield made.with_spec(sharding={"linesPerShard": 40}, requests=requests).input(wanted)
    for process in made.processes:
        if process.process.poll() is None:
            process.kill()


def every_line_succeeded(job: JobUnderTest, planned: PlanReport) -> None:
    report = job.merge(planned)
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 0)
    results = job.published("results.jsonl")
    assert ids(results) == ids(lines(LINES))
    assert report.finish_reasons == {"length": LINES}, "no answer that was cut by the server's end is published"
    assert report.usage.output_tokens == 64 * LINES


def test_a_cold_start_is_waited_for(job: JobUnderTest, server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(job.plan, server_patience=2 * START_SECONDS)
        with server():
            planned = planning.result(START_SECONDS)
        worker = job.start_worker(planned)
        wait_until(lambda: b"the model server is away" in worker.log.read_bytes())
        with server():
            assert worker.report(Progress).completed == LINES
    every_line_succeeded(job, planned)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_it_goes_in_mid_run_and_comes_back(job: JobUnderTest, server: Server, how: signal.Signals) -> None:
    with ExitStack() as first:
        gone = first.enter_context(server())
        planned = job.plan()
        with job.working(planned) as worker:
            wait_until(lambda: worker.progress().completed > LINES // 4)
            os.killpg(gone.pid, how)
            wait_until(lambda: not worker.progress().server_available)
            first.close()
            said = worker.progress()
            assert said.completed < LINES
            with server():
                assert worker.end().failed == 0
    every_line_succeeded(job, planned)
