"""Workers that are stopped or killed: the next one goes on, each line ends once, and nothing is paid for twice."""

import itertools
import json
import signal
import socket
import threading
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import InterruptedReport, MergeProgress, PlanReport, Progress
from batchwright.batchfile.plan_record import decode_record
from batchwright.batchfile.result_line import read_finished_line
from batchwright.batchfile.shard_record import ShardRecord
from fixtures.fault_proxy import Answer, Before, FaultProxy
from fixtures.s3 import S3Bucket
from fixtures.worker import WAIT_SECONDS, JobUnderTest, bucket_place, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

LINES = 300
IN_FLIGHT = 8


@pytest.fixture
def long_job(job: JobUnderTest, stub: StubProcess) -> JobUnderTest:
    """300 requests of 200 ms, eight at once, in shards of 40: seven seconds of work. Quickened by the tests."""
    stub.switch(delay="0.2")
    job = job.with_spec(sharding={"linesPerShard": 40}, requests={"maxConcurrency": IN_FLIGHT, "timeout": "20s"})
    return job.input(chat_lines(LINES))


def work_folder(planned: PlanReport) -> Path:
    return Path(planned.plan_uri.removeprefix("file://")).parent


def finished_ids(planned: PlanReport) -> set[str]:
    """What stands in segments and shard files by now."""
    files = [path for name in ("segments", "shards") for path in (work_folder(planned) / name).rglob("*.jsonl")]
    lines = [
        line for path in files if not path.name.endswith("-retry.jsonl") for line in path.read_bytes().splitlines()
    ]
    return {read_finished_line(line).custom_id for line in lines}


def objects(bucket: S3Bucket, planned: PlanReport, folder: str) -> dict[str, bytes]:
    """Work objects in a bucket, by key."""
    prefix = planned.plan_uri.removeprefix(f"s3://{bucket.name}/").removesuffix("plan.json") + folder
    listed = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=prefix)["Contents"]
    keys = [entry["Key"] for entry in listed]
    return {key: bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}


def sent(stub: StubProcess) -> Counter[str]:
    return Counter(stub.arrivals().arrived)


def every_line_ended_once(job: JobUnderTest, planned: PlanReport) -> None:
    report = job.merge(planned)
    assert report.request_counts.completed == LINES
    assert ids(job.published("results.jsonl")) == ids(chat_lines(LINES))


def test_sigterm_waits_for_what_is_in_flight_and_the_next_worker_goes_on(
    long_job: JobUnderTest, stub: StubProcess
) -> None:
    planned = long_job.plan()
    worker = long_job.start_worker(planned)
    wait_until(lambda: sent(stub).total() > 60)
    worker.terminate()
    assert worker.wait() == ExitCode.INTERRUPTED
    report = worker.report(InterruptedReport)
    first = sent(stub)
    assert 60 < first.total() < LINES
    assert report.progress is not None
    assert report.progress.completed == first.total(), "what was in flight was waited for"
    assert finished_ids(planned) == set(first)

    stub.switch(delay="0.01")
    progress = long_job.start_worker(planned).report(Progress)
    assert progress.completed == LINES, "the count goes on where it stood"
    assert sent(stub) == dict.fromkeys(ids(chat_lines(LINES)), 1), "nothing was sent twice"
    every_line_ended_once(long_job, planned)


def test_sigkill_costs_at_most_what_was_in_flight_and_unflushed(long_job: JobUnderTest, stub: StubProcess) -> None:
    # A slow line keeps its shard open, so that there is something to restore.
    long_job.input([chat_line(f"request-{n}", "delay=15,times=1" if n == 0 else None) for n in range(LINES)])
    planned = long_job.plan()
    worker = long_job.start_worker(planned)
    wait_until(lambda: list((work_folder(planned) / "segments").rglob("*.jsonl")))
    worker.kill()
    kept, first = finished_ids(planned), sent(stub)
    assert kept

    stub.switch(delay="0.01")
    long_job.start_worker(planned).report(Progress)
    again = {custom_id for custom_id, times in sent(stub).items() if times > 1}
    assert not again & kept, "what was kept was sent again"
    assert again <= set(first) - kept
    every_line_ended_once(long_job, planned)
    assert not list((long_job.folder / "spool").glob("worker-*")), "what the killed worker spooled is gone"


def test_two_workers_of_one_index_at_once_commit_each_shard_once(
    job: JobUnderTest, stub: StubProcess, s3_bucket: S3Bucket
) -> None:
    stub.switch(delay="0.05")
    job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
    job = job.with_spec(sharding={"linesPerShard": 40}, requests={"maxConcurrency": IN_FLIGHT})
    planned = job.input(chat_lines(LINES)).plan()
    both = [job.start_worker(planned) for _ in range(2)]
    for worker in both:
        assert worker.wait() == ExitCode.DONE, worker.log.read_text()

    records = [decode_record(data, ShardRecord) for data in objects(s3_bucket, planned, "records/").values()]
    assert len(records) == planned.shards
    keys = set(objects(s3_bucket, planned, "shards/"))
    assert keys == {record.results.key for record in records if record.results}, "the losers left nothing"
    every_line_ended_once(job, planned)


def test_a_worker_that_wakes_up_after_the_merge_changes_nothing(job: JobUnderTest, stub: StubProcess) -> None:
    """As on a node that was cut off: its successor has done everything, and its work objects are gone by then."""
    job = job.with_spec(sharding={"linesPerShard": 5}, requests={"maxConcurrency": IN_FLIGHT})
    lines = [chat_line(f"request-{n}", "delay=2,times=1" if n < IN_FLIGHT else None) for n in range(60)]
    planned = job.input(lines).plan()
    zombie = job.start_worker(planned, spool="zombie")
    wait_until(lambda: sent(stub).total() >= IN_FLIGHT)
    zombie.process.send_signal(signal.SIGSTOP)
    job.start_worker(planned).report(Progress)
    first = job.merge(planned)
    results = job.published_bytes("results.jsonl")
    assert ids(job.published("results.jsonl")) == ids(lines)

    zombie.process.send_signal(signal.SIGCONT)
    assert zombie.wait() == ExitCode.DONE, zombie.log.read_text()
    assert job.published_bytes("results.jsonl") == results
    assert job.merge(planned) == first
    assert not list((work_folder(planned) / "shards").rglob("*.jsonl"))


def test_a_merge_tells_how_far_it_is_and_what_it_waits_for(
    job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy
) -> None:
    job = job.at(bucket_place(s3_bucket, s3_proxy.endpoint_url)).with_spec(sharding={"linesPerShard": 2})
    planned = job.input(chat_lines(8)).plan()
    job.work(planned)
    s3_proxy.inject("PutObject", Answer(503, "SlowDown"))
    port = free_port()
    merging = job.start("merge", "--fingerprint", planned.fingerprint, "--port", str(port))
    wait_until(lambda: "PutObject s3://" in told_by_merge(port).message)
    waiting = told_by_merge(port)
    assert waiting.run == 1
    assert waiting.bytes_joined == 0
    assert waiting.bytes_total > 0
    assert "SlowDown" in waiting.message
    s3_proxy.clear()
    assert merging.wait() == ExitCode.DONE
    assert ids(job.published("results.jsonl")) == ids(chat_lines(8))


def told_by_merge(port: int) -> MergeProgress:
    """What a merge says at a port; nothing yet where it has not begun."""
    try:
        return MergeProgress.model_validate_json(get(port, "/progress"))
    except OSError:
        return MergeProgress(run=0)


def test_sigterm_before_the_first_request(job: JobUnderTest, stub: StubProcess) -> None:
    """A plan that waits for the model server."""
    gone = JobUnderTest(job.place, job.folder, "http://127.0.0.1:9", processes=job.processes)
    process = gone.input(chat_lines(1)).start("plan")
    wait_until(lambda: b"the model server is away" in process.log.read_bytes())
    process.terminate()
    assert process.wait() == ExitCode.INTERRUPTED
    assert process.report(InterruptedReport).progress is None


def test_a_merge_whose_store_hangs_does_not_outlive_its_grace(
    job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy
) -> None:
    """Its threads wait for an answer that doesn't come, and leaving their pool waits for them."""
    job = job.at(bucket_place(s3_bucket, s3_proxy.endpoint_url)).with_spec(sharding={"linesPerShard": 2})
    planned = job.input(chat_lines(8)).plan()
    job.work(planned)
    asked, released = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        released.wait(WAIT_SECONDS)

    for_records = itertools.count()
    s3_proxy.inject("GetObject", Before(lambda: hang() if next(for_records) else None))  # the first is the plan's
    process = job.start_merge(planned)
    try:
        assert asked.wait(WAIT_SECONDS)
        process.terminate()
        assert process.wait(30) == ExitCode.INTERRUPTED
    finally:
        released.set()
    assert process.report(InterruptedReport).progress is None
    job.merge(planned)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(8))


def test_sigterm_while_python_still_imports(job: JobUnderTest, tmp_path: Path) -> None:
    """As the first process of its container a worker without a handler would not even get it.

    A handler that isn't Python's own default is what counts: without one the process would die of the signal here.
    """
    endless = tmp_path / "modules" / "uvloop.py"  # the first module of another project that the stages import
    endless.parent.mkdir()
    endless.write_text("import time\nprint('importing', flush=True)\nwhile True:\n    time.sleep(0.1)\n")
    job = job.at(replace(job.place, environment={"PYTHONPATH": str(endless.parent)}))
    process = job.input(chat_lines(1)).start("plan")
    wait_until(process.log.read_text)
    process.terminate()
    assert process.wait() == ExitCode.INTERRUPTED
    assert process.log.read_text() == "importing\n"


def test_a_worker_tells_its_progress_and_health_while_it_works(long_job: JobUnderTest, stub: StubProcess) -> None:
    planned = long_job.plan()
    port = free_port()
    worker = long_job.start(
        *("run", "--fingerprint", planned.fingerprint, "--workers", "1", "--index", "0", "--port", str(port))
    )
    wait_until(lambda: sent(stub).total() > 50)
    progress = Progress.model_validate_json(get(port, "/progress"))
    assert 0 < progress.completed < LINES
    assert progress.shards_active
    stub.switch(delay="0.01")
    assert get(port, "/healthz") == get(port, "/readyz") == b"ok"
    assert worker.report(Progress).completed == LINES
    assert json.loads(worker.termination_log.read_text())["kind"] == "progress"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        content: bytes = answer.read()
        return content
