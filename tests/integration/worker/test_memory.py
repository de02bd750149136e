"""Memory that doesn't grow with the input. Measured on processes, as the system counts it."""

import json
from pathlib import Path

import pytest

from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import PlanReport, Progress
from batchwright.worker.run.feeding import BYTES_IN_FLIGHT
from batchwright.worker.run.shard_input import ORDERED_SHARE
from batchwright.worker.run.stage_run import read_plan
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, wait_until
from stub.harness import StubProcess

MIB = 1 << 20
GIGABYTE = 1_000_000_000
LINES_OF_A_BLOCK = 1000


def write_gigabyte(path: Path) -> int:
    """A file of 1 GB with an id of its own in each line; gives the number of lines."""
    path.parent.mkdir(parents=True)
    template = json.dumps(chat_line("request-", filler="lorem ipsum " * 70)).encode()
    head, tail = template.split(b'"request-"', 1)
    tail += b"\n"
    written = lines = 0
    with path.open("wb") as file:
        while written < GIGABYTE:
            numbers = range(lines, lines + LINES_OF_A_BLOCK)
            written += file.write(b"".join(b'%s"request-%d"%s' % (head, number, tail) for number in numbers))
            lines += LINES_OF_A_BLOCK
    return lines


def test_the_plan_of_a_gigabyte_stays_under_200_mib(job: JobUnderTest) -> None:
    path = Path(job.place.input_uri.removeprefix("file://"))
    try:
        lines = write_gigabyte(path)
        process = job.start("plan")
        planned = process.report(PlanReport)
    finally:
        path.unlink(missing_ok=True)
    assert planned.lines == lines
    assert 20 * MIB < process.peak_bytes < 200 * MIB


def test_a_workers_memory_does_not_depend_on_the_size_of_the_file(job: JobUnderTest, stub: StubProcess) -> None:
    """Up to a million lines: `make bench-memory`."""
    peaks = []
    for count in (1_000, 10_000):
        planned = job.input(chat_lines(count)).plan()
        worker = job.start_worker(planned)
        assert worker.report(Progress).completed == count
        peaks.append(worker.peak_bytes)
    small, large = peaks
    assert large < 1.1 * small


@pytest.mark.parametrize(
    ("count", "text_bytes"),
    [pytest.param(14, 10 * MIB - 1000, id="10 MiB bodies"), pytest.param(40, 10, id="small bodies")],
)
def test_answers_of_5_mb_stay_under_200_mib(
    count: int, text_bytes: int, job: JobUnderTest, s3_bucket: S3Bucket
) -> None:
    """With 64 allowed in flight: fewer are, as far as the budgets of bytes reach."""
    job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
    job = job.with_spec(requests={"maxConcurrency": 64, "timeout": "2m"})
    message = [{"role": "user", "content": "x" * text_bytes}]
    lines = [chat_line(f"request-{number}", "size=5000000", messages=message) for number in range(count)]
    planned = job.input(lines).plan()
    worker = job.start_worker(planned)
    assert worker.report(Progress).completed == count
    assert 50 * MIB < worker.peak_bytes < 200 * MIB


@pytest.mark.parametrize(
    ("count", "windows", "most"),
    [pytest.param(96, 1, 110 * MIB, id="just read whole"), pytest.param(288, 3, 160 * MIB, id="in windows")],
)
def test_a_shard_that_is_put_in_order_in_memory_stays_small(
    count: int, windows: int, most: int, job: JobUnderTest
) -> None:
    message = [{"role": "user", "content": "x" * 160_000}]
    job = job.with_spec(sharding={"linesPerShard": count}, requests={"maxConcurrency": 64})
    planned = job.input(chat_line(f"request-{number}", messages=message) for number in range(count)).plan()
    (shard,) = read_plan(job.stage().output_store, job.stage().layout.work(planned.fingerprint)).shards
    assert 0.9 * windows < (shard.end - shard.start) / (ORDERED_SHARE * BYTES_IN_FLIGHT) < windows
    worker = job.start_worker(planned)
    assert worker.report(Progress).completed == count
    assert 50 * MIB < worker.peak_bytes < most, worker.peak_bytes / MIB


def test_a_worker_that_restores_large_answers_does_not_hold_them(job: JobUnderTest, stub: StubProcess) -> None:
    lines = [chat_line(f"id-{number}", "size=1MiB") for number in range(120)]
    # A slow line keeps the shard open, so that there is something to restore.
    lines.append(chat_line("slow", "delay=60,times=1"))
    job = job.with_spec(sharding={"linesPerShard": 200}, requests={"maxConcurrency": 4})
    planned = job.input(lines).plan()
    first = job.start_worker(planned)
    wait_until(lambda: stub.arrivals().total == len(lines))
    stub.wait_in_flight(1)
    first.terminate()
    wait_until(lambda: b"waiting for what is in flight" in first.log.read_bytes())
    stub.abort()
    assert first.wait() == ExitCode.INTERRUPTED
    second = job.start_worker(planned)
    assert second.report(Progress).completed == len(lines)
    assert stub.arrivals().total == len(lines) + 1
    assert second.peak_bytes < 150 * MIB
