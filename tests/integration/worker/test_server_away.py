"""A model server that goes away in mid-run: nothing is charged, nothing is lost, and the work goes on by itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import InterruptedReport, PlanReport, Progress
from batchwright.worker.run import sender
from batchwright.worker.server.findings import WatchTimes
from fixtures.worker import WAIT_SECONDS, JobUnderTest, Working, chat_lines, ids, wait_until
from stub.harness import StubProcess

LINES = 160
IN_FLIGHT = 8
IMPATIENT = WatchTimes(
    silence=0.3,
    probe_timeout=20,
    probe_again=0.1,
    first_poll=0.05,
    longest_poll=0.2,
    first_trial=0.1,
    longest_trial=0.2,
)
StartStub = Callable[..., StubProcess]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BACKOFF_BASE_SECONDS", 0.05)


@pytest.fixture
def job(job: JobUnderTest, stub: StubProcess) -> JobUnderTest:
    """160 requests of 50 ms, eight at once, without any retry: one that is charged once has failed."""
    stub.switch(delay="0.05")
    requests = {"maxConcurrency": IN_FLIGHT, "retries": 0, "timeout": "60s"}
    return job.with_spec(sharding={"linesPerShard": 40}, requests=requests).input(chat_lines(LINES))


@contextmanager
def at_work(
    job: JobUnderTest, stub: StubProcess, planned: PlanReport, times: WatchTimes = IMPATIENT
) -> Iterator[Working]:
    """A worker in the midst of the input."""
    with job.working(planned, times) as worker:
        wait_until(lambda: stub.arrivals().total > LINES // 4)
        yield worker


def away(worker: Working) -> Progress:
    """Wait until the worker says that the server is away, and give what it says."""
    wait_until(lambda: not worker.progress().server_available)
    return worker.progress()


def every_line_succeeded(job: JobUnderTest, planned: PlanReport) -> None:
    report = job.merge(planned)
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 0)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(LINES))
    assert report.finish_reasons == {"stop": LINES}, "no answer that was cut is published"


def port_of(stub: StubProcess) -> int:
    port = urlsplit(stub.url).port
    assert port is not None
    return port


def test_shut_down_and_started_again(job: JobUnderTest, start_stub: StartStub) -> None:
    server = start_stub(delay="0.05")
    job = replace(job, server_url=server.url)
    planned = job.plan()
    with at_work(job, server, planned) as worker:
        assert server.abort() > 0, "some are answered with finish_reason abort and half a text"
        server.terminate()
        server.process.wait(WAIT_SECONDS)
        said = away(worker)
        assert said.server_reason is Reason.SERVER_AWAY
        assert said.server_since is not None
        assert "no connection" in said.server_message
        start_stub(port=port_of(server), delay="0.01")
        assert worker.end().failed == 0
    every_line_succeeded(job, planned)


def test_killed_and_started_again(job: JobUnderTest, start_stub: StartStub) -> None:
    server = start_stub(delay="0.05")
    job = replace(job, server_url=server.url)
    planned = job.plan()
    with at_work(job, server, planned) as worker:
        server.kill()
        server.process.wait(WAIT_SECONDS)
        start_stub(port=port_of(server), delay="0.01")
        worker.end()
        assert worker.progress().server_available
    every_line_succeeded(job, planned)


def test_new_connections_are_refused_while_those_in_flight_stay_open_and_silent(
    job: JobUnderTest, stub: StubProcess
) -> None:
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(drain=True, freeze=True)
        away(worker)
        stub.wait_in_flight(0)  # they are dropped, long before their minute is over
        stub.restore()
        worker.end()
    every_line_succeeded(job, planned)


def test_a_stopped_process_whose_connections_are_accepted_by_the_system(
    job: JobUnderTest, start_stub: StartStub
) -> None:
    server = start_stub(delay="0.05")
    job = replace(job, server_url=server.url)
    planned = job.plan()
    with at_work(job, server, planned, replace(IMPATIENT, probe_timeout=0.3)) as worker:
        server.stop_answering()
        said = away(worker)
        server.go_on()
        assert said.server_reason is Reason.SERVER_AWAY
        worker.end()
    every_line_succeeded(job, planned)


def test_frozen_while_its_health_is_fine(job: JobUnderTest, stub: StubProcess) -> None:
    requests = {"maxConcurrency": IN_FLIGHT, "retries": 0, "timeout": "1s"}
    job = job.with_spec(requests=requests)
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(freeze=True)
        said = away(worker)
        assert said.server_reason is Reason.SERVER_AWAY
        assert "within 1 s" in said.server_message
        arrived = stub.arrivals().total
        wait_until(lambda: stub.arrivals().total > arrived + 2)  # trials that fail too
        assert worker.progress().failed == 0
        stub.switch(freeze=False)
        worker.end()
    every_line_succeeded(job, planned)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_every_request_fails_while_its_health_is_fine(job: JobUnderTest, stub: StubProcess, status: int) -> None:
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(requests=f"status={status}")
        assert away(worker).server_message == f"The server answered {status}."
        stub.switch(requests="")
        worker.end()
    every_line_succeeded(job, planned)


def test_the_api_key_is_rotated(job: JobUnderTest, stub: StubProcess) -> None:
    key = job.folder / "server" / "api-key"
    key.parent.mkdir()
    key.write_text("old")
    stub.switch(api_keys=["old"])
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(api_keys=["new"])
        said = away(worker)
        assert said.server_reason is Reason.SERVER_UNAUTHORIZED
        key.write_text("new")
        worker.end()
    every_line_succeeded(job, planned)


def test_the_model_vanishes_and_comes_back(job: JobUnderTest, stub: StubProcess) -> None:
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(models=["other"])
        said = away(worker)
        assert said.server_reason is Reason.MODEL_NOT_FOUND
        assert said.server_message == "The model server no longer serves stub-model. It serves: other."
        stub.switch(models=["other", "stub-model"])
        worker.end()
    every_line_succeeded(job, planned)


def test_sigterm_while_everything_waits_for_the_server(job: JobUnderTest, start_stub: StartStub) -> None:
    server = start_stub(delay="0.05")
    gone = replace(job, server_url=server.url)
    planned = gone.plan()
    process = gone.start_worker(planned)
    wait_until(lambda: server.arrivals().total > LINES // 4)
    server.kill()
    wait_until(lambda: b"the model server is away" in process.log.read_bytes())
    process.terminate()
    assert process.wait() == ExitCode.INTERRUPTED
    report = process.report(InterruptedReport)
    assert report.progress is not None
    assert report.progress.failed == 0

    start_stub(port=port_of(server), delay="0.01")
    assert gone.start_worker(planned).report(Progress).completed == LINES
    every_line_succeeded(gone, planned)


def test_the_log_says_once_that_it_went_and_came_back(
    job: JobUnderTest, stub: StubProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    planned = job.plan()
    with at_work(job, stub, planned) as worker:
        stub.switch(drain=True, freeze=True)
        away(worker)
        stub.wait_in_flight(0)
        stub.restore()
        worker.end()
    said = [record.message for record in caplog.records if "the model server" in record.message]
    assert len(said) == 2
    assert said[0].startswith("the model server is away (ServerAway): ")
    assert said[1].startswith("the model server is back after ")
