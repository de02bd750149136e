"""The progress object of a real run: current while it goes on, never less than before, exact at its end."""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, PlanReport
from batchwright.api.undone import Undone
from batchwright.storage.errors import AccessDenied
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.merge import merge
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, StageProcess, bucket_place, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

NAME = "in_20260102_030405.progress.json"
LIVE = {"lines_processed", "total_tokens_so_far", "num_responses_so_far"}
SEGMENT_SECONDS = "0.1"


@pytest.fixture
def told_job(job: JobUnderTest) -> JobUnderTest:
    """A job on a volume that keeps a progress object."""
    return told(job)


@pytest.fixture
def bucket_job(job: JobUnderTest, s3_bucket: S3Bucket) -> JobUnderTest:
    """The same in a bucket."""
    return told(job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url)))


@pytest.fixture(params=["told_job", "bucket_job"])
def either_job(request: pytest.FixtureRequest) -> JobUnderTest:
    job: JobUnderTest = request.getfixturevalue(request.param)
    return job


def told(job: JobUnderTest) -> JobUnderTest:
    job = job.with_output(names={"progress": NAME}).with_spec(sharding={"linesPerShard": 10})
    return job.with_spec(requests={"maxConcurrency": 2, "retries": 0}).quick_to_start()


def progress(job: JobUnderTest, name: str = NAME) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(job.published_bytes(name))
    except KeyError:
        return None
    return found


def lines_of(job: JobUnderTest) -> int:
    found = progress(job)
    return found["lines_processed"] if found else -1


@contextmanager
def observed(job: JobUnderTest) -> Iterator[list[dict[str, Any]]]:
    """Every content that the object has while the body runs, in order."""
    seen: list[dict[str, Any]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            found = progress(job)
            if found is not None and (not seen or seen[-1] != found):
                seen.append(found)
            ended.wait(0.03)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def never_less(seen: list[dict[str, Any]]) -> bool:
    return all(before[name] <= after[name] for before, after in itertools.pairwise(seen) for name in LIVE)


def start(job: JobUnderTest, planned: PlanReport, index: int, workers: int = 2, run: int = 1) -> StageProcess:
    """A worker that writes segments, and so the progress object, often."""
    return job.start(
        *("run", "--fingerprint", planned.fingerprint, "--workers", str(workers), "--index", str(index)),
        *("--run", str(run), "--port", "0", "--segment-seconds", SEGMENT_SECONDS),
        spool=f"spool-{index}",
    )


def is_final(job: JobUnderTest, report: MergeReport) -> bool:
    """Asserts that the object has the report's totals."""
    found = progress(job)
    assert found is not None
    counts, tokens = report.request_counts, report.usage.total_tokens or 0
    assert {name: found[name] for name in LIVE} == {
        "lines_processed": counts.total,
        "total_tokens_so_far": tokens,
        "num_responses_so_far": counts.completed,
    }
    metrics = found["metrics"]
    assert metrics.keys() == {
        *("response_time", "throughput_tokens_per_second", "total_tokens", "num_responses", "lines_processed")
    }
    assert (metrics["lines_processed"], metrics["num_responses"]) == (counts.total, counts.completed)
    assert metrics["total_tokens"] == tokens
    assert metrics["response_time"] == report.response_time_seconds
    return True


class TestDuringTheRun:
    def test_it_follows_the_work_within_shards_and_is_exact_at_the_end(
        self, either_job: JobUnderTest, stub: StubProcess
    ) -> None:
        stub.switch(delay="0.05")
        slow = {59: "delay=2"}  # so that the end is not near while the object is looked at
        lines = [chat_line(f"id-{n}", "status=400" if n % 7 == 0 else slow.get(n)) for n in range(60)]
        planned = either_job.input(lines).plan()
        with observed(either_job) as seen:
            for worker in [start(either_job, planned, index) for index in range(2)]:
                assert worker.wait() == ExitCode.DONE, worker.log.read_text()
        assert never_less(seen)
        assert all(one.keys() == LIVE for one in seen)
        assert any(0 < one["lines_processed"] < 60 and one["lines_processed"] % 10 for one in seen), "open shards count"
        report = either_job.merge(planned)
        assert is_final(either_job, report)
        assert report.request_counts.failed == 9
        found = progress(either_job)
        assert found is not None
        seconds, tokens = found["metrics"]["response_time"], report.usage.total_tokens
        assert tokens
        assert seconds > 0
        assert found["metrics"]["throughput_tokens_per_second"] == pytest.approx(tokens / seconds, rel=0.01)

    def test_without_its_name_there_is_none(self, job: JobUnderTest) -> None:
        job.input(chat_lines(3)).complete()
        stage = job.stage()
        assert [info.key for info in stage.output_store.list(stage.layout.prefix) if "progress" in info.key] == []


class TestKills:
    def test_another_worker_goes_on_with_it_and_none_of_its_counts_falls(
        self, bucket_job: JobUnderTest, stub: StubProcess
    ) -> None:
        stub.switch(delay="0.05")
        planned = bucket_job.input(chat_lines(400)).plan()
        with observed(bucket_job) as seen:
            first, second = start(bucket_job, planned, 0), start(bucket_job, planned, 1)
            wait_until(lambda: lines_of(bucket_job) >= 10)
            first.kill()
            first.wait()
            told_until_then = lines_of(bucket_job)
            wait_until(lambda: lines_of(bucket_job) >= told_until_then + 10)  # index 1 tells it now
            stub.switch(delay="0")
            again = start(bucket_job, planned, 0)
            for worker in (second, again):
                assert worker.wait() == ExitCode.DONE, worker.log.read_text()
        assert never_less(seen)
        assert is_final(bucket_job, bucket_job.merge(planned))

    def test_an_index_that_never_comes_is_not_waited_for(self, told_job: JobUnderTest, stub: StubProcess) -> None:
        stub.switch(delay="0.05")
        planned = told_job.input(chat_lines(60)).plan()
        worker = start(told_job, planned, 1)
        wait_until(lambda: lines_of(told_job) >= 10)
        assert worker.wait() == ExitCode.DONE, worker.log.read_text()

    def test_a_repair_goes_on_from_what_was_told(self, told_job: JobUnderTest, stub: StubProcess) -> None:
        stub.switch(delay="0.05")
        planned = told_job.input(chat_lines(40)).plan()
        with observed(told_job) as seen:
            worker = start(told_job, planned, 0, workers=1)
            wait_until(lambda: lines_of(told_job) >= 15)
            worker.kill()
            worker.wait()
            repair = start(told_job, planned, 0, workers=1, run=2)
            assert repair.wait() == ExitCode.DONE, repair.log.read_text()
        assert never_less(seen)
        assert is_final(told_job, told_job.merge(planned))


class TestEnd:
    def test_of_a_batch_that_was_stopped(self, either_job: JobUnderTest, stub: StubProcess) -> None:
        stub.switch(delay="0.05")
        began = datetime.now(UTC)
        planned = either_job.input(chat_lines(400)).plan()
        worker = start(either_job, planned, 0, workers=1)
        stage = either_job.stage()
        records = stage.layout.work(planned.fingerprint).records
        # Where the operator doesn't say when the run began, the first shard that was committed does.
        wait_until(lambda: lines_of(either_job) >= 5 and any(stage.output_store.list(records)))
        worker.terminate()
        assert worker.wait() == ExitCode.INTERRUPTED
        report = merge(stage, fingerprint=planned.fingerprint, undone=Undone.EXPIRED)
        assert isinstance(report, MergeReport)
        assert is_final(either_job, report)
        assert 5 <= report.request_counts.completed < 400
        assert report.response_time_seconds is not None
        assert 0 < report.response_time_seconds < (datetime.now(UTC) - began).total_seconds()

    @pytest.mark.parametrize("undone", list(Undone))
    def test_of_a_batch_that_never_ran(self, told_job: JobUnderTest, undone: Undone) -> None:
        planned = told_job.input(chat_lines(4)).plan()
        report = merge(told_job.stage(), fingerprint=planned.fingerprint, undone=undone)
        assert isinstance(report, MergeReport)
        assert is_final(told_job, report)
        assert report.response_time_seconds == 0.0

    def test_merged_again_it_says_the_same(self, told_job: JobUnderTest) -> None:
        planned = told_job.input(chat_lines(10)).plan()
        told_job.work(planned)
        report = told_job.merge(planned)
        before = told_job.published_bytes(NAME)
        assert told_job.merge(planned) == report
        assert told_job.published_bytes(NAME) == before

    def test_the_run_began_when_the_operator_says(self, told_job: JobUnderTest) -> None:
        began = datetime.now(UTC) - timedelta(hours=1)
        planned = told_job.input(chat_lines(10)).plan()
        told_job.work(planned)
        arguments = ("merge", "--fingerprint", planned.fingerprint, "--port", "0", "--began", began.isoformat())
        process = told_job.start(*arguments)
        assert process.wait() == ExitCode.DONE
        report = process.report(MergeReport)
        assert is_final(told_job, report)
        assert report.response_time_seconds is not None
        assert 3600 <= report.response_time_seconds <= (datetime.now(UTC) - began).total_seconds()

    def test_refused_it_costs_no_results(self, job: JobUnderTest) -> None:
        job = told(job).input(chat_lines(4))
        planned = job.plan()
        job.work(planned)
        stage = job.stage()
        refusing = Refusing(Path(stage.output_store.uri("").removeprefix("file://")))
        report = merge(replace(stage, output_store=refusing), fingerprint=planned.fingerprint)
        assert isinstance(report, MergeReport)
        assert len(job.published("results.jsonl")) == 4
        (warning,) = report.warnings
        assert "is not up to date" in warning
        assert "s3:PutObject" in warning


class Refusing(FileStore):
    """Takes everything but the progress object."""

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        if key.endswith(NAME):
            raise AccessDenied("PutObject", key, "no", "s3:PutObject")
        return super().write(key, data, if_none_match=if_none_match, if_match=if_match)


class TestAppliedAgain:
    """A BatchJob of the same name goes on from what another one published."""

    PASSING = "status=500,times=1"

    def failing(self, job: JobUnderTest) -> JobUnderTest:
        return job.input([chat_line(f"id-{n}", {3: self.PASSING, 12: "status=400"}.get(n)) for n in range(30)])

    def test_it_begins_with_what_stands(self, bucket_job: JobUnderTest, stub: StubProcess) -> None:
        job = self.failing(bucket_job)
        first = job.complete()
        assert first.request_counts.failed == 2
        stub.switch(delay="2")
        planned = job.plan()
        assert planned.reused is not None
        worker = start(job, planned, 0, workers=1)
        wait_until(lambda: (found := progress(job)) and "metrics" not in found)
        assert lines_of(job) == 29
        assert worker.wait() == ExitCode.DONE
        report = job.merge(planned)
        assert is_final(job, report)
        assert (report.request_counts.completed, report.request_counts.failed) == (29, 1)
        found = progress(job)
        assert found is not None
        own = (report.usage.total_tokens or 0) - (first.usage.total_tokens or 0)
        rate = own / found["metrics"]["response_time"]
        assert found["metrics"]["throughput_tokens_per_second"] == pytest.approx(rate, rel=0.01)

    def test_with_nothing_left_to_do_it_says_so(self, told_job: JobUnderTest, stub: StubProcess) -> None:
        job = told_job.input(chat_lines(10))
        job.complete()
        sent = stub.arrivals().total
        planned = job.plan()
        job.work(planned)
        report = merge(job.stage(), fingerprint=planned.fingerprint, began=datetime.now(UTC))
        assert isinstance(report, MergeReport)
        assert is_final(job, report)
        assert report.response_time_seconds == 0.0
        assert stub.arrivals().total == sent

    @pytest.mark.parametrize("passing", [PASSING, None], ids=["some run again", "all stand"])
    @pytest.mark.parametrize("crossed", ["results.jsonl", "errors.jsonl"])
    def test_in_place_of_what_was_published_it_costs_nothing(
        self, told_job: JobUnderTest, stub: StubProcess, passing: str | None, crossed: str
    ) -> None:
        lines = [chat_line(f"id-{n}", {3: passing, 6: "status=400"}.get(n)) for n in range(8)]
        job = told_job.input(lines)
        job.complete()
        sent = stub.arrivals().total
        job = job.with_output(names={"results": "r.jsonl", "errors": "e.jsonl", "progress": crossed})
        report = job.complete()
        assert stub.arrivals().total - sent == (1 if passing else 0)
        assert (report.request_counts.completed, report.request_counts.failed) == (7, 1)
        assert ids(job.published("r.jsonl")) == [f"id-{n}" for n in range(8) if n != 6]
        assert ids(job.published("e.jsonl")) == ["id-6"]
        found = progress(job, crossed)
        assert found is not None
        assert found["metrics"]["num_responses"] == 7

    def test_under_another_name(self, told_job: JobUnderTest, stub: StubProcess) -> None:
        job = told_job.input(chat_lines(4))
        job.complete()
        again = job.with_output(names={"progress": "other.json"})
        again.complete()
        found = progress(again, "other.json")
        assert found is not None
        assert found["metrics"]["lines_processed"] == 4
        assert stub.arrivals().total == 4

    def test_of_other_work_nothing_counts(self, told_job: JobUnderTest, stub: StubProcess) -> None:
        told_job.input(chat_lines(40)).complete()
        other = told_job.input([chat_line(f"other-{n}", "delay=2") for n in range(2)])
        planned = other.plan()
        worker = start(other, planned, 0, workers=1)
        wait_until(lambda: (found := progress(other)) and "metrics" not in found)
        assert lines_of(other) == 0
        assert worker.wait() == ExitCode.DONE
        assert is_final(other, other.merge(planned))
