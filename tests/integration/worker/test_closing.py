"""A closing merge publishes what a stopped run has left: each request once, in input order, with exact counts."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, MergeReport
from batchwright.api.undone import UNDONE_MESSAGES, Undone
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import OpeningRecord
from batchwright.storage import patience as storage_patience
from batchwright.storage.errors import AccessDenied
from batchwright.worker import closing as closing_module
from batchwright.worker import merge as merge_module
from batchwright.worker.failures import failure_of
from batchwright.worker.merge_stage import merge_patiently
from batchwright.worker.run.openings import MOST_KILLS
from fixtures.closing import (
    CANCELLED,
    LINES,
    LINES_PER_SHARD,
    MIB,
    SHARDS,
    close,
    commit,
    every_request_ended_once,
    failure,
    keep,
    once,
    small,
    start_closing,
    success,
    work_of,
)
from fixtures.fault_proxy import Answer, FaultProxy, LoseAnswer
from fixtures.s3 import S3Bucket
from fixtures.worker import (
    JobUnderTest,
    bucket_place,
    chat_line,
    chat_lines,
    ids,
    wait_until,
)
from stub.harness import StubProcess


def test_a_worker_is_stopped_and_what_it_did_is_published(either_job: JobUnderTest, stub: StubProcess) -> None:
    job = either_job.with_spec(requests={"maxConcurrency": 16, "timeout": "2s"})
    lines = chat_lines(LINES)
    # The second and the last shard have a line that is not answered while the worker lives.
    for hanging in (5, 17):
        lines[hanging] = chat_line(f"request-{hanging}", "hang")
    planned = job.input(lines).plan()
    worker = job.start_worker(planned)
    wait_until(lambda: len(stub.arrivals().answered) == LINES - 2)
    worker.kill() if job.place.storage is None else worker.terminate()
    assert worker.wait() in (-signal.SIGKILL, ExitCode.INTERRUPTED)
    report = start_closing(job, planned).report(MergeReport)
    counts = report.request_counts
    assert report.error_codes == {CANCELLED: counts.failed}
    assert counts.completed + counts.failed == LINES
    every_request_ended_once(job, report)
    assert [line for line in job.published("retry.jsonl") if line["custom_id"] == "request-5"] == [lines[5]]


@pytest.mark.parametrize("undone", list(Undone))
def test_a_run_that_never_began_has_errors_alone(small_job: JobUnderTest, undone: Undone) -> None:
    planned = small_job.plan()
    report = start_closing(small_job, planned, undone.value).report(MergeReport)
    assert (report.output, report.error_codes) == (None, {undone.value: LINES})
    every_request_ended_once(small_job, report)
    assert small_job.published("errors.jsonl")[6] == {
        "id": f"batch_req_{planned.fingerprint}_7",
        "custom_id": "request-6",
        "response": None,
        "error": {"code": undone.value, "message": UNDONE_MESSAGES[undone]},
    }
    assert small_job.published("retry.jsonl") == chat_lines(LINES)


def test_committed_kept_and_undone_requests_come_together(either_job: JobUnderTest) -> None:
    job = either_job
    planned = job.plan()
    commit(job, planned, 1, 4)
    keep(job, planned, success(planned, 3), failure(planned, 0))
    keep(job, planned, success(planned, 3, "of another attempt"), success(planned, 1), attempt="b")
    report = close(job, planned)
    every_request_ended_once(job, report)
    assert ids(job.published("results.jsonl")) == [f"request-{n}" for n in (1, 3, *range(4, 8), *range(16, 20))]
    assert report.error_codes == {"request_timeout": 1, CANCELLED: 9}
    assert b"of another attempt" not in job.published_bytes("results.jsonl")
    store, layout = work_of(job, planned)
    assert not [*store.list(layout.segments), *store.list(layout.shard_files)]


def test_a_shard_whose_lines_are_all_kept_has_none_undone(small_job: JobUnderTest) -> None:
    planned = small_job.plan()
    commit(small_job, planned, 0, 1, 2, 3)
    keep(small_job, planned, *(success(planned, number) for number in range(16, 20)), shard=4)
    report = close(small_job, planned)
    assert (report.request_counts.completed, report.errors, report.retry) == (LINES, None, None)
    every_request_ended_once(small_job, report)


def test_with_all_committed_it_is_a_merge_as_always(small_job: JobUnderTest) -> None:
    planned = small_job.plan()
    small_job.work(planned)
    assert close(small_job, planned) == small_job.merge(planned)
    assert not list((small_job.folder / "spool").glob("worker-*"))


def test_a_shard_that_has_killed_too_many_workers_keeps_its_code(small_job: JobUnderTest) -> None:
    planned = small_job.plan()
    store, layout = work_of(small_job, planned)
    opening = OpeningRecord(run=1, index=0, attempt="a", finished=0, kills=MOST_KILLS - 1)
    store.write(layout.opening(2, MOST_KILLS - 1, "a"), encode_record(opening))
    report = close(small_job, planned)
    assert report.error_codes == {"worker_failed": LINES_PER_SHARD, CANCELLED: LINES - LINES_PER_SHARD}
    every_request_ended_once(small_job, report)


def test_blank_lines_are_passed_over_and_counted_in_line_numbers(small_job: JobUnderTest) -> None:
    content = b"\n".join(b"\r\n" + line for line in small_job.place.get(small_job.place.input_uri).splitlines())
    planned = small_job.input(content).plan()
    report = close(small_job, planned)
    every_request_ended_once(small_job, report)
    assert [line["id"].rpartition("_")[2] for line in small_job.published("errors.jsonl")[:3]] == ["2", "4", "6"]


class TestInputGone:
    """What was paid for is published all the same."""

    @pytest.fixture(params=["gone", "changed", "shorter"])
    def without_input(self, either_job: JobUnderTest, request: pytest.FixtureRequest) -> Callable[[], None]:
        job = either_job

        def change() -> None:
            if request.param != "gone":
                job.input(chat_lines(LINES if request.param == "changed" else 3, prefix="another-"))
            elif job.place.storage is None:
                Path(job.place.input_uri.removeprefix("file://")).unlink()
            else:
                job.stage().input_store.delete([job.stage().input_key])

        return change

    def test_commits_and_segments_are_published_and_the_rest_is_counted(
        self, either_job: JobUnderTest, without_input: Callable[[], None]
    ) -> None:
        job = either_job
        planned = job.plan()
        commit(job, planned, 1)
        keep(job, planned, success(planned, 19), success(planned, 17), failure(planned, 16), shard=4)
        keep(job, planned, success(planned, 11), shard=2)
        without_input()
        report = start_closing(job, planned, "batch_failed").report(MergeReport)
        assert ids(job.published("results.jsonl")) == [f"request-{n}" for n in (4, 5, 6, 7, 11, 17, 19)]
        assert ids(job.published("errors.jsonl")) == ["request-16"]
        assert report.retry is None
        counts = report.request_counts
        assert (counts.total, counts.completed, counts.failed) == (LINES, 7, 13)
        assert report.error_codes == {"batch_failed": 12, "request_timeout": 1}
        unfinished, unretried = report.warnings
        assert unfinished.startswith("12 unfinished requests are counted as failed and have no line")
        assert unretried.startswith("1 failed requests of the errors object have no line in the retry object")
        assert all(job.place.input_uri in warning for warning in report.warnings)
        assert close(job, planned, Undone.FAILED) == report, "and again"

    def test_requests_that_had_all_ended_are_told_of_where_they_cannot_be_sent_again(
        self, small_job: JobUnderTest
    ) -> None:
        planned = small_job.plan()
        commit(small_job, planned, 1, 2, 3, 4)
        keep(small_job, planned, failure(planned, 0), *(success(planned, number) for number in (1, 2, 3)))
        Path(small_job.place.input_uri.removeprefix("file://")).unlink()
        report = close(small_job, planned)
        assert (report.error_codes, report.retry) == ({"request_timeout": 1}, None)
        (warning,) = report.warnings
        assert warning.startswith("1 failed requests of the errors object have no line in the retry object")

    def test_with_nothing_done_nothing_is_published(self, small_job: JobUnderTest) -> None:
        planned = small_job.plan()
        Path(small_job.place.input_uri.removeprefix("file://")).unlink()
        for _ in range(2):
            report = close(small_job, planned)
            assert (report.output, report.errors, report.retry) == (None, None, None)
            assert report.error_codes == {CANCELLED: LINES}
            assert len(report.warnings) == 1


class TestAppliedAgain:
    """The next BatchJob of the name goes on from what a closing merge published."""

    def test_stopped_again_at_once_it_publishes_the_same(self, either_job: JobUnderTest, stub: StubProcess) -> None:
        job = either_job
        planned = job.plan()
        commit(job, planned, 1, 4)
        keep(job, planned, success(planned, 3), failure(planned, 0))
        close(job, planned)
        results = job.published_bytes("results.jsonl")
        again = job.plan()
        assert again.fingerprint == f"{planned.fingerprint}-2"
        report = close(job, again, Undone.EXPIRED)
        assert job.published_bytes("results.jsonl") == results
        assert report.error_codes == {"batch_expired": 11}, "the one that had failed may be sent again"
        every_request_ended_once(job, report)

        sent = stub.arrivals().total
        last = job.complete()
        assert last.request_counts.completed == LINES
        assert stub.arrivals().total == sent + 11
        every_request_ended_once(job, last)

    def test_with_the_input_back_what_had_no_line_is_done(
        self, job: JobUnderTest, s3_bucket: S3Bucket, stub: StubProcess
    ) -> None:
        job = small(job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url)))
        planned = job.plan()
        commit(job, planned, 1)
        keep(job, planned, success(planned, 9), failure(planned, 8), shard=2)
        job.stage().input_store.delete([job.stage().input_key])
        close(job, planned)
        sent = stub.arrivals().total
        report = job.input(chat_lines(LINES)).complete()
        assert (report.request_counts.completed, report.warnings) == (LINES, ())
        assert stub.arrivals().total == sent + 15
        every_request_ended_once(job, report)


class TestStore:
    """A store that refuses, is away, or holds what can't be read."""

    def test_a_damaged_segment_is_named(self, small_job: JobUnderTest) -> None:
        planned = small_job.plan()
        keep(small_job, planned, success(planned, 4), b'{"custom_id":"request-5","resp', shard=1)
        process = start_closing(small_job, planned)
        assert process.wait() == ExitCode.PLAN_UNREADABLE
        report = process.report(FailureReport)
        assert report.reason is Reason.PLAN_UNREADABLE
        assert report.final
        assert "segments/000001/a-000000.jsonl is damaged" in report.message
        with pytest.raises(KeyError):
            small_job.published("errors.jsonl")

    def test_segments_of_another_input_are_refused(self, small_job: JobUnderTest) -> None:
        planned = small_job.plan()
        keep(small_job, planned, success(planned, 4), shard=0)
        with pytest.raises(ValueError, match="segments/000000/ hold 1 lines of another input"):
            close(small_job, planned)

    def test_an_input_that_may_not_be_read_is_a_failure(self, proxied_job: JobUnderTest, s3_proxy: FaultProxy) -> None:
        planned = proxied_job.plan()
        refuse = once(lambda: s3_proxy.inject("GetObject", Answer(403, "AccessDenied")))
        with pytest.raises(AccessDenied, match=r"in/input\.jsonl: access denied") as refused:
            close(proxied_job, planned, closed=refuse)
        assert failure_of(refused.value).report.reason is Reason.STORAGE_ACCESS_DENIED

    def test_one_that_is_away_for_a_while_is_waited_for(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(storage_patience, "FIRST_PAUSE", 0.05)
        monkeypatch.setattr(merge_module, "DELETE_PAUSES", (0.05, 0.05, 0.05))
        planned = proxied_job.plan()
        commit(proxied_job, planned, 3)
        keep(proxied_job, planned, success(planned, 5), failure(planned, 6), shard=1)
        for operation in ("GetObject", "PutObject", "ListObjectsV2", "HeadObject"):
            s3_proxy.inject(operation, Answer(503, "ServiceUnavailable"), times=8)
        s3_proxy.inject("PutObject", LoseAnswer(), times=3)
        report = merge_patiently(
            proxied_job.stage(), fingerprint=planned.fingerprint, run=1, port=0, undone=Undone.CANCELLED
        )
        assert isinstance(report, MergeReport)
        assert report.error_codes == {"request_timeout": 1, CANCELLED: 14}
        every_request_ended_once(proxied_job, report)


def test_shards_with_large_earlier_results_are_closed_few_at_a_time(
    small_job: JobUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands from an earlier BatchJob is in no segment, and is held as what is."""
    planned = small_job.plan()
    for shard, first in enumerate(range(0, LINES, LINES_PER_SHARD)):
        keep(small_job, planned, success(planned, first, "x" * 50_000), shard=shard)
    close(small_job, planned)
    again = small_job.plan()
    monkeypatch.setattr(closing_module, "BYTES_AT_ONCE", 60_000)
    told: list[int] = []
    report = close(small_job, again, closed=lambda done, _: told.append(done))
    assert told == [0, *range(SHARDS + 1)], "each is done before the next one is begun"
    every_request_ended_once(small_job, report)


def test_large_shards_are_closed_few_at_a_time(job: JobUnderTest, s3_bucket: S3Bucket) -> None:
    """Each of them is held once while it is written. All at once they would take 250 MiB."""
    shards, lines = 16, 12
    job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url)).with_spec(sharding={"linesPerShard": lines})
    planned = job.input(chat_line(f"id-{n}", filler="x" * 1_000_000) for n in range(shards * lines)).plan()
    process = start_closing(job, planned)
    report = process.report(MergeReport)
    assert report.error_codes == {CANCELLED: shards * lines}
    assert report.retry is not None
    assert report.retry.bytes > shards * lines * 1_000_000
    assert 20 * MIB < process.peak_bytes < 190 * MIB
