"""Requests that fail, against a real server: the server's affairs cost no line, and a bad line costs only itself."""

import time

import pytest

from batchwright.worker.run import sender
from fixtures.worker import JobUnderTest, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

LINES = 200
WHILE_SECONDS = 2.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BACKOFF_BASE_SECONDS", 0.05)


@pytest.fixture
def strict(job: JobUnderTest) -> JobUnderTest:
    """200 requests without any retry: one that is charged once has failed."""
    return job.with_spec(requests={"maxConcurrency": 16, "retries": 0, "timeout": "30s"}).input(chat_lines(LINES))


def none_failed(job: JobUnderTest) -> None:
    report = job.complete()
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 0)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(LINES))


def test_idle_connections_are_closed_after_a_second(strict: JobUnderTest, stub: StubProcess) -> None:
    planned = strict.plan()
    stub.switch(idle_close=1.0, delay="0.05")
    with strict.working(planned) as worker:
        for half in (50, 100):
            wait_until(lambda half=half: worker.progress().completed > half)
            # All wait for a second, and come back just as their connections are closed.
            stub.switch(requests="status=429,retry_after=1")
            wait_until(lambda: stub.stats().in_flight == 0)
            stub.switch(requests="")
        end = worker.end()
    assert (end.completed, end.failed) == (LINES, 0)


@pytest.mark.parametrize("retry_after", ["", ",retry_after=1"])
def test_the_server_answers_429_for_a_while(strict: JobUnderTest, stub: StubProcess, retry_after: str) -> None:
    planned = strict.plan()
    stub.switch(requests=f"status=429{retry_after}")
    with strict.working(planned) as worker:
        time.sleep(WHILE_SECONDS)
        assert (worker.progress().completed, worker.progress().failed) == (0, 0)
        stub.switch(requests="")
        assert worker.end().completed == LINES


def test_while_it_says_when_to_come_back_nothing_is_sent(strict: JobUnderTest, stub: StubProcess) -> None:
    planned = strict.plan()
    stub.switch(requests="status=429,retry_after=60")
    with strict.working(planned) as worker:
        time.sleep(WHILE_SECONDS)
        assert stub.arrivals().total <= 16
        assert worker.progress().failed == 0


def test_half_of_the_answers_are_503(strict: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(requests="status=503,fraction=0.5,seed=3")
    none_failed(strict)


def test_a_queue_that_is_too_short_for_all(strict: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(slots=2, queue=2, queue_status=503, delay="0.01")
    none_failed(strict)


def test_bad_lines_cost_one_error_line_each(job: JobUnderTest, stub: StubProcess) -> None:
    bad = {"fails": "status=500", "hangs": "hang", "empty": "body=empty", "web page": "status=502,body=html"}
    good = chat_lines(LINES)
    lines = [*good[:50], *(chat_line(name, switches) for name, switches in bad.items()), *good[50:]]
    job = job.with_spec(requests={"timeout": "3s", "maxConcurrency": 16, "retries": 1}).input(lines)
    report = job.complete()
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 4)
    assert ids(job.published("results.jsonl")) == ids(good)
    errors = job.published("errors.jsonl")
    assert ids(errors) == list(bad)
    assert [line["response"] and line["response"]["status_code"] for line in errors] == [500, None, None, 502]
    assert [line["error"] and line["error"]["code"] for line in errors] == [
        None,
        "request_timeout",
        "invalid_answer",
        None,
    ]
    assert all(line["error"]["message"].endswith("Tried 2 times.") for line in errors[1:3])
    arrived = stub.arrivals().arrived
    assert {name: arrived[name] for name in bad} == dict.fromkeys(bad, 2)


def test_one_bad_line_alone_has_its_tries_and_no_more(job: JobUnderTest, stub: StubProcess) -> None:
    report = job.input([chat_line("fails", "status=500")]).complete()
    assert report.request_counts.failed == 1
    assert stub.arrivals().arrived == {"fails": 4}


def test_a_line_that_breaks_its_connection_fails_at_last(
    job: JobUnderTest, stub: StubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SPARED_BACKOFF_SECONDS", 0.1)
    stub.switch(delay="0.05")
    lines = [chat_line("breaks", "reset=after_read"), *chat_lines(500)]
    job = job.with_spec(requests={"maxConcurrency": 3}).input(lines)
    report = job.complete()
    assert (report.request_counts.completed, report.request_counts.failed) == (500, 1)
    (error,) = job.published("errors.jsonl")
    assert error["error"]["code"] == "connection_error"
    assert stub.arrivals().arrived["breaks"] == sender.MAX_BROKEN_TRIES


def test_a_few_bad_lines_in_a_job_that_is_all_in_flight_at_once(job: JobUnderTest, stub: StubProcess) -> None:
    """All others are answered at the moment at which these fail, and nobody after it."""
    stub.switch(delay="0.05")
    bad = [chat_line(f"bad-{number}", "status=500") for number in range(5)]
    job = job.with_spec(requests={"concurrency": "Fixed"}).input([*chat_lines(10), *bad])
    report = job.complete()
    assert (report.request_counts.completed, report.request_counts.failed) == (10, 5)
    arrived = stub.arrivals().arrived
    assert {name: arrived[name] for name in ids(bad)} == dict.fromkeys(ids(bad), 4)
