"""Workers that die over a shard, as pods do that run out of memory: processes that get SIGKILL."""

from pathlib import Path

import pytest

from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, PlanReport, Progress
from fixtures.worker import JobUnderTest, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

LINES_PER_SHARD = 5
DEADLY = "request-7"
"""In the second of six shards. Nobody answers it, so that it is in flight whenever its worker is killed."""


@pytest.fixture
def deadly_job(job: JobUnderTest) -> JobUnderTest:
    lines = [line | chat_line(DEADLY, "hang") if line["custom_id"] == DEADLY else line for line in chat_lines(30)]
    job = job.quick_to_start().with_spec(sharding={"linesPerShard": LINES_PER_SHARD}, requests={"maxConcurrency": 32})
    return job.input(lines)


def kill_over_the_deadly_line(job: JobUnderTest, planned: PlanReport, stub: StubProcess, times: int) -> None:
    for _ in range(times):
        before = stub.arrivals().arrived.get(DEADLY, 0)
        worker = job.start_worker(planned)
        wait_until(lambda before=before: stub.arrivals().arrived.get(DEADLY, 0) > before)
        worker.kill()


def segments(planned: PlanReport) -> list[Path]:
    folder = Path(planned.plan_uri.removeprefix("file://")).parent / "segments"
    return list(folder.rglob("*.jsonl"))


def test_a_shard_that_kills_its_worker_three_times_is_given_up_and_the_rest_goes_on(
    deadly_job: JobUnderTest, stub: StubProcess
) -> None:
    # All of the shard hangs, so that no kill lets a line of it be finished.
    lines = [
        line | chat_line(line["custom_id"], "hang") if 5 <= n < 10 else line for n, line in enumerate(chat_lines(30))
    ]
    job = deadly_job.input(lines)
    planned = job.plan()
    kill_over_the_deadly_line(job, planned, stub, times=3)
    worker = job.start_worker(planned)
    assert worker.report(Progress).failed == 5
    assert worker.wait() == ExitCode.DONE
    assert stub.arrivals().arrived[DEADLY] == 3, "it was not sent again"

    report = job.start_merge(planned).report(MergeReport)
    assert (report.request_counts.completed, report.request_counts.failed) == (25, 5)
    assert report.error_codes == {"worker_failed": 5}
    given_up = ids(lines[5:10])
    assert ids(job.published("results.jsonl")) == [custom_id for custom_id in ids(lines) if custom_id not in given_up]
    errors = job.published("errors.jsonl")
    assert ids(errors) == given_up
    for line in errors:
        assert line["response"] is None
        assert line["error"]["code"] == "worker_failed"
        for words in ("killed 3 times in a row", "memory", "retry file"):
            assert words in line["error"]["message"]
    assert job.published("retry.jsonl") == lines[5:10]


def test_progress_between_two_kills_begins_the_count_anew(deadly_job: JobUnderTest, stub: StubProcess) -> None:
    # The other lines of the shard are answered, which counts as soon as they stand in a segment.
    planned = deadly_job.plan()
    kill_over_the_deadly_line(deadly_job, planned, stub, times=2)
    third = deadly_job.start_worker(planned)
    wait_until(lambda: segments(planned) and stub.arrivals().arrived[DEADLY] == 3)
    third.kill()
    fourth = deadly_job.start_worker(planned)
    wait_until(lambda: stub.arrivals().arrived[DEADLY] == 4)
    fourth.kill()


def test_a_worker_that_leaves_in_good_order_is_not_counted(deadly_job: JobUnderTest, stub: StubProcess) -> None:
    job = deadly_job.with_spec(requests={"maxConcurrency": 32, "timeout": "1s", "retries": 100})
    planned = job.plan()
    for times in range(1, 4):
        worker = job.start_worker(planned)
        wait_until(lambda times=times: stub.arrivals().arrived.get(DEADLY, 0) >= times)
        worker.terminate()
        assert worker.wait() == ExitCode.INTERRUPTED
    worker = job.start_worker(planned)
    sent = stub.arrivals().arrived[DEADLY]
    wait_until(lambda: stub.arrivals().arrived[DEADLY] > sent)
    worker.kill()
