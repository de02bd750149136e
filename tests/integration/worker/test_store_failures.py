"""Stores that fail in the midst of a job: it completes, and no request is paid for twice.

Every stage runs as a pod does it. Results are large enough for an upload in parts, of which some are copied within the
store and some are sent.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, MergeReport, ShardsMissingReport
from batchwright.storage import patience as storage_patience
from batchwright.storage.factory import open_store
from batchwright.storage.patience import Patience
from batchwright.worker import merge as merge_module
from batchwright.worker import stage as stage_module
from batchwright.worker.merge import merge
from batchwright.worker.merge_stage import merge_patiently
from batchwright.worker.run import patience as run_patience
from batchwright.worker.run.claims import ShardQueue, WorkerIdentity
from fixtures.fault_proxy import Answer, Before, Cut, Fault, FaultProxy, LoseAnswer, RefuseChecksums
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

SLOW_DOWN = Answer(503, "SlowDown")
UNAVAILABLE = Answer(503, "ServiceUnavailable")
"""The client comes back from it within a tenth of a second, from SlowDown within seconds."""
OPERATIONS = (
    *("GetObject", "PutObject", "HeadObject", "ListObjectsV2", "DeleteObjects"),
    *("CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload"),
)
LINES = [chat_line(f"id-{n}", "status=400" if n == 13 else "size=1MiB") for n in range(23)]
"""Shards of 10, 9 and 3 MiB, and one error."""


@pytest.fixture
def large_job(
    job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> JobUnderTest:
    """The job in a bucket behind the proxy, with a store that is quick to give up, and pauses that are short."""

    def open_impatient(location: Any, settings: Any, **rest: Any) -> Any:
        return open_store(location, replace(settings, max_attempts=2), **rest)

    monkeypatch.setattr(stage_module, "open_store", open_impatient)
    for module in (storage_patience, run_patience):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(merge_module, "DELETE_PAUSES", (0.05, 0.05, 0.05))
    job = job.at(bucket_place(s3_bucket, s3_proxy.endpoint_url))
    return job.with_spec(sharding={"linesPerShard": 10}).input(LINES)


def complete(job: JobUnderTest, before_each_stage: Callable[[], None]) -> MergeReport:
    """All three stages, as patient as pods are."""
    before_each_stage()
    planned = Patience(60.0).call(job.plan)
    before_each_stage()
    job.work(planned)
    before_each_stage()
    report = merge_patiently(job.stage(), fingerprint=planned.fingerprint, run=1, port=0)
    assert isinstance(report, MergeReport)
    return report


FAULTS: dict[str, tuple[tuple[str, Fault, int | None], ...]] = {
    "every operation answers 503 for longer than the client tries": tuple(
        (operation, SLOW_DOWN if operation == "CompleteMultipartUpload" else UNAVAILABLE, 3) for operation in OPERATIONS
    ),
    "every answer to a write gets lost for a while": tuple(
        (operation, LoseAnswer(), 3) for operation in OPERATIONS if operation != "GetObject"
    ),
    "reads are cut in the middle, and errors come inside a 200": (
        ("GetObject", Cut(after=700), 4),
        ("CompleteMultipartUpload", Answer(200, "InternalError"), 3),
    ),
    "no checksums, no aws-chunked bodies, no copies of parts": (
        ("UploadPartCopy", Answer(501, "NotImplemented"), None),
        ("*", RefuseChecksums(), None),
    ),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_the_job_completes_without_new_inference(
    large_job: JobUnderTest,
    s3_proxy: FaultProxy,
    s3_bucket: S3Bucket,
    stub: StubProcess,
    faults: tuple[tuple[str, Fault, int | None], ...],
) -> None:
    def inject() -> None:
        s3_proxy.clear()  # what a stage has not met would add up for the next one
        for operation, fault, times in faults:
            s3_proxy.inject(operation, fault, times)

    report = complete(large_job, inject)
    assert (report.request_counts.completed, report.request_counts.failed) == (22, 1)
    assert report.warnings == ()
    direct = large_job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
    assert ids(direct.published("results.jsonl")) == [f"id-{n}" for n in range(23) if n != 13]
    assert ids(direct.published("errors.jsonl")) == ["id-13"]
    assert stub.arrivals().arrived == dict.fromkeys(ids(LINES), 1)
    assert s3_bucket.unfinished_uploads() == []
    assert set(OPERATIONS) - set(s3_proxy.operations) == set()


def test_a_merge_that_was_killed_leaves_no_upload_behind(
    large_job: JobUnderTest, s3_proxy: FaultProxy, s3_bucket: S3Bucket
) -> None:
    planned = large_job.plan()
    large_job.work(planned)
    s3_proxy.inject("UploadPart", SLOW_DOWN)
    killed = large_job.start_merge(planned)
    wait_until(lambda: "UploadPart" in s3_proxy.operations)
    killed.kill()
    assert s3_bucket.unfinished_uploads() == ["out/job/results.jsonl"]
    s3_proxy.clear()
    large_job.merge(planned)
    assert s3_bucket.unfinished_uploads() == []
    assert len(large_job.published("results.jsonl")) == 22


@pytest.mark.parametrize("moment", ["CreateMultipartUpload", "UploadPart"])
def test_a_merge_that_another_one_overtakes_finds_what_was_published(
    large_job: JobUnderTest, s3_proxy: FaultProxy, s3_bucket: S3Bucket, moment: str
) -> None:
    """It has taken away the shard files, and aborted the upload."""
    planned = large_job.plan()
    large_job.work(planned)
    direct = large_job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))
    overtaking: list[MergeReport] = []
    s3_proxy.inject(moment, Before(lambda: overtaking.append(direct.merge(planned))), times=1)
    report = merge_patiently(large_job.stage(), fingerprint=planned.fingerprint, run=1, port=0)
    assert [report] == overtaking
    assert len(direct.published("results.jsonl")) == 22
    assert s3_bucket.unfinished_uploads() == []


def test_an_input_that_is_overwritten_in_mid_run_fails_and_nothing_is_mixed(
    job: JobUnderTest, s3_bucket: S3Bucket, stub: StubProcess
) -> None:
    stub.switch(delay="0.1")
    job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url)).with_spec(
        sharding={"linesPerShard": 5}, requests={"maxConcurrency": 5}
    )
    lines, others = chat_lines(100, prefix="old-"), chat_lines(100, prefix="new-")
    planned = job.input(lines).plan()
    worker = job.start_worker(planned)
    wait_until(lambda: stub.arrivals().total > 20)
    job.input(others)
    assert worker.wait() == ExitCode.INPUT_CHANGED
    failure = worker.report(FailureReport)
    assert (failure.reason, failure.final) == (Reason.INPUT_CHANGED, True)
    assert job.place.input_uri in failure.message
    assert set(stub.arrivals().arrived) <= set(ids(lines)), "no line of the new content was sent"

    assert isinstance(merge(job.stage(), fingerprint=planned.fingerprint), ShardsMissingReport)
    with pytest.raises(KeyError):
        job.published("results.jsonl")
    assert job.input(others).complete().request_counts.completed == 100, "created anew it does the new content"
    assert ids(job.published("results.jsonl")) == ids(others)


def test_a_worker_that_ends_well_without_its_records_is_no_success(job: JobUnderTest, stub: StubProcess) -> None:
    """Whatever an exit code says: only records count. Here index 1 claims shards, and its container ends with 0."""
    job = job.with_spec(sharding={"linesPerShard": 2})
    planned = job.input(chat_lines(20)).plan()
    stage = job.stage()
    queue = ShardQueue(
        store=stage.output_store,
        layout=stage.layout.work(planned.fingerprint),
        identity=WorkerIdentity(run=1, index=1, workers=2, attempt="ended"),
        shards=planned.shards,
        exclusive=True,
    )
    abandoned = [claimed.shard for claimed in (queue.take(), queue.take(), queue.take()) if claimed]
    worker = job.start_worker(planned, 0, workers=2)
    assert worker.wait() == ExitCode.DONE

    merging = job.start_merge(planned)
    assert merging.wait() == ExitCode.SHARDS_MISSING
    report = merging.report(ShardsMissingReport)
    assert (report.count, report.shards) == (3, f"{abandoned[0]}-{abandoned[2]}")
    with pytest.raises(KeyError):
        job.published("results.jsonl")

    job.work(planned, run_number=2)
    assert job.merge(planned).request_counts.completed == 20
    assert stub.arrivals().arrived == dict.fromkeys(ids(chat_lines(20)), 1)
