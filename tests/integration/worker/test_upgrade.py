"""Work that earlier versions have left is gone on with by this one. See tests/recorded."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, MergeReport, PlanReport
from batchwright.api.undone import Undone
from batchwright.batchfile.plan_record import READABLE_VERSIONS
from batchwright.batchfile.result_line import read_finished_line
from batchwright.worker.merge import merge
from fixtures.s3 import S3Bucket, S3Server
from fixtures.worker import JobUnderTest, bucket_place, ids, parsed
from stub.harness import StubProcess

RECORDED: Final = Path(__file__).parents[2] / "recorded"
VERSIONS: Final = sorted(path.name for path in RECORDED.iterdir() if (path / "interrupted").is_dir())
BUCKET: Final = "recorded"
"""The recorded plan names it, and so does the fingerprint of the work."""

Restore = Callable[[str], JobUnderTest]


@pytest.fixture(params=VERSIONS)
def restore(request: pytest.FixtureRequest, job: JobUnderTest, s3_server: S3Server) -> Restore:
    """Puts what a version recorded into a bucket, and gives the BatchJob that it is the work of."""

    def put(name: str) -> JobUnderTest:
        client = s3_server.client()
        if BUCKET in [one["Name"] for one in client.list_buckets()["Buckets"]]:
            for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
                client.delete_object(Bucket=BUCKET, Key=entry["Key"])
        else:
            client.create_bucket(Bucket=BUCKET)
        bucket = S3Bucket(s3_server, BUCKET, client)
        folder = RECORDED / request.param / name
        for path in folder.rglob("*"):
            if path.is_file():
                bucket.put(path.relative_to(folder).as_posix(), path.read_bytes())
        spec = {"sharding": {"linesPerShard": 4}, "requests": {"retries": 3}}
        return job.at(bucket_place(bucket, s3_server.endpoint_url)).with_spec(**spec)

    return put


def lines_of(job: JobUnderTest) -> list[str]:
    return ids(parsed(job.place.get(job.place.input_uri)))


def finished_before(job: JobUnderTest, planned: PlanReport) -> set[str]:
    """Ids in the segments and files of shards that the earlier version wrote."""
    store, layout = job.stage().output_store, job.stage().layout.work(planned.fingerprint)
    keys = [info.key for prefix in (layout.segments, layout.shard_files) for info in store.list(prefix)]
    wanted = [key for key in keys if key.endswith(".jsonl") and not key.endswith("-retry.jsonl")]
    return {read_finished_line(line).custom_id for key in wanted for line in store.read(key).splitlines()}


def assert_exact(job: JobUnderTest, report: MergeReport, codes: dict[str, int]) -> None:
    results = ids(job.published("results.jsonl"))
    errors = ids(job.published("errors.jsonl"))
    wanted = lines_of(job)
    assert results == [name for name in wanted if name not in errors]
    assert errors == [name for name in wanted if name not in results]
    assert ids(job.published("retry.jsonl")) == errors
    counts = report.request_counts
    assert (counts.total, counts.completed, counts.failed) == (len(wanted), len(results), len(errors))
    assert report.error_codes == codes
    tokens = sum(line["response"]["body"]["usage"]["total_tokens"] for line in job.published("results.jsonl"))
    assert report.usage.total_tokens == tokens


def test_an_interrupted_run_goes_on(restore: Restore, stub: StubProcess) -> None:
    job = restore("interrupted")
    planned = job.plan()
    before = finished_before(job, planned)
    assert before, "the same work is found"
    progress = job.work(planned, workers=2)
    assert sum(one.completed + one.failed for one in progress) == planned.lines, "workers count on"
    assert_exact(job, job.merge(planned), {"400": 1})
    sent = stub.arrivals().arrived
    assert set(sent) == set(lines_of(job)) - before, "what was finished is not sent again"


def test_an_interrupted_run_is_closed(restore: Restore, stub: StubProcess) -> None:
    job = restore("interrupted")
    planned = job.plan()
    before = finished_before(job, planned)
    report = merge(job.stage(), fingerprint=planned.fingerprint, undone=Undone.CANCELLED)
    assert isinstance(report, MergeReport)
    assert_exact(job, report, {"batch_cancelled": planned.lines - len(before), "400": 1})
    assert stub.arrivals().total == 0


def test_what_was_published_is_known_and_gone_on_from(restore: Restore, stub: StubProcess) -> None:
    job = restore("published")
    work = next(info.key for info in job.stage().output_store.list("out/job/.batchwright/") if "/plan.json" in info.key)
    fingerprint = work.split("/")[-2]
    first = merge(job.stage(), fingerprint=fingerprint)
    assert isinstance(first, MergeReport)
    assert_exact(job, first, {"400": 1, "500": 1})

    again = job.plan()
    assert again.fingerprint == f"{fingerprint}-2"
    assert again.reused is not None
    assert (again.reused.completed, again.reused.failed, again.reused.shards) == (14, 1, 3)
    job.work(again)
    assert_exact(job, job.merge(again), {"400": 1})
    assert set(stub.arrivals().arrived) == {"id-14"}


@pytest.mark.parametrize("stage", ["plan", "run", "merge"])
def test_a_version_that_is_not_known_yet_is_refused(restore: Restore, stub: StubProcess, stage: str) -> None:
    job = restore("interrupted").quick_to_start()
    planned = job.plan()
    newer = max(READABLE_VERSIONS) + 1
    record: dict[str, Any] = json.loads(job.place.get(planned.plan_uri)) | {"version": newer}
    job.place.put(planned.plan_uri, json.dumps(record).encode())
    process = {
        "plan": lambda: job.start("plan"),
        "run": lambda: job.start_worker(planned),
        "merge": lambda: job.start_merge(planned),
    }[stage]()
    assert process.wait() == ExitCode.PLAN_UNREADABLE
    failure = process.report(FailureReport)
    assert failure.reason is Reason.PLAN_UNREADABLE
    assert re.search(rf"of version {newer}; this program reads the versions 1 and 2", failure.message)
    assert stub.arrivals().total == 0
