"""Stores as they are: least permissions, odd keys, refusals, and stores that can't do everything."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport
from batchwright.batchfile.plan_record import PlanRecord, decode_record
from fixtures.fault_proxy import Answer, FaultProxy, IgnoreConditions, LoseAnswer
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, Place, bucket_place, chat_line, chat_lines, folder_place, ids
from stub.harness import StubProcess

NEEDED = ("s3:GetObject", "s3:ListBucket", "s3:PutObject")


@pytest.fixture
def bucket_job(job: JobUnderTest, s3_bucket: S3Bucket) -> JobUnderTest:
    """The job in a bucket, which it reaches as root."""
    return job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))


@pytest.fixture
def proxied_job(job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> JobUnderTest:
    """The job in a bucket, which it reaches through the fault proxy."""
    return job.at(bucket_place(s3_bucket, s3_proxy.endpoint_url))


def with_account_of(job: JobUnderTest, bucket: S3Bucket, *actions: str) -> JobUnderTest:
    """The same job with an account that may do these actions and no other."""
    account = bucket.server.create_account()
    if actions:
        bucket.allow(account, *actions)
    environment = {"AWS_ACCESS_KEY_ID": account.access_key, "AWS_SECRET_ACCESS_KEY": account.secret_key}
    return job.at(replace(job.place, credentials=account.credentials_dir, environment=environment))


class TestPermissions:
    """Three are needed and enough; one that lacks is named before any request is paid for."""

    @pytest.mark.parametrize("lacking", NEEDED)
    def test_one_that_is_refused_is_named_with_its_uri(
        self, bucket_job: JobUnderTest, s3_bucket: S3Bucket, stub: StubProcess, lacking: str
    ) -> None:
        bucket_job.input(chat_lines(3))
        job = with_account_of(bucket_job, s3_bucket, *(action for action in NEEDED if action != lacking))
        process = job.start("plan")
        assert process.wait() == ExitCode.STORAGE_REFUSED
        report = process.report(FailureReport)
        assert report.reason is Reason.STORAGE_ACCESS_DENIED
        assert lacking in report.message
        assert (
            f"s3://{s3_bucket.name}/{'in/input.jsonl' if lacking == 's3:GetObject' else 'out/job/'}" in report.message
        )
        assert f"Grant {lacking}" in report.message
        assert stub.arrivals().total == 0

    def test_these_three_are_enough_for_a_whole_run(self, bucket_job: JobUnderTest, s3_bucket: S3Bucket) -> None:
        lines = [chat_line("a"), chat_line("b", "status=400"), chat_line("c")]
        job = with_account_of(bucket_job.input(lines), s3_bucket, *NEEDED)
        report = job.complete(workers=2)
        assert (report.request_counts.completed, report.request_counts.failed) == (2, 1)
        assert ids(job.published("results.jsonl")) == ["a", "c"]
        (warning,) = report.warnings
        assert "s3:DeleteObject" in warning

    def test_what_an_earlier_run_left_and_cannot_be_deleted_is_told(
        self, bucket_job: JobUnderTest, s3_bucket: S3Bucket
    ) -> None:
        s3_bucket.put("out/job/errors.jsonl", b"of an earlier run\n")
        report = with_account_of(bucket_job.input(chat_lines(2)), s3_bucket, *NEEDED).complete()
        assert report.errors is None
        assert any("errors.jsonl is of an earlier run" in warning for warning in report.warnings)


@pytest.mark.parametrize("kind", ["bucket", "folder"])
@pytest.mark.parametrize(
    "odd", ["with space", "ünïcödé 漢字 😀", "plus+sign", "per%20cent%", "hash#mark", "question?mark=1", "a&b=c;d'e\"f"]
)
def test_keys_are_literal(
    job: JobUnderTest, request: pytest.FixtureRequest, kind: str, odd: str, tmp_path: Path
) -> None:
    input_key, prefix = f"in {odd}/{odd}.jsonl", f"out {odd}/"
    place: Place
    if kind == "bucket":
        bucket = request.getfixturevalue("s3_bucket")
        place = bucket_place(bucket, bucket.server.endpoint_url, input_key, prefix)
    else:
        place = folder_place(tmp_path / "volume", input_key, prefix)
    job = job.at(place).input([chat_line("a"), chat_line("b", "status=400")])
    report = job.complete()
    assert report.output is not None
    assert report.output.uri == f"{place.output_uri}job/results.jsonl"
    assert ids(job.published("results.jsonl")) == ["a"]
    assert ids(job.published("errors.jsonl")) == ["b"]


class TestUnreliableStores:
    """Stores that lose answers, throttle, or don't know conditional PUT."""

    def everything_once(self, job: JobUnderTest, stub: StubProcess, lines: list[dict[str, Any]]) -> None:
        assert ids(job.published("results.jsonl")) == ids(lines)
        assert stub.arrivals().arrived == dict.fromkeys(ids(lines), 1)

    def test_without_conditional_put_shards_are_dealt_out(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy, stub: StubProcess
    ) -> None:
        s3_proxy.inject("PutObject", IgnoreConditions())
        lines = chat_lines(60)
        job = proxied_job.with_spec(sharding={"linesPerShard": 7}).input(lines)
        planned = job.plan()
        record = decode_record(job.place.get(planned.plan_uri), PlanRecord)
        assert not record.conditional_put
        progress = job.work(planned, workers=3)
        assert [one.shards_completed for one in progress] == [3, 3, 3]
        job.merge(planned)
        self.everything_once(job, stub, lines)

    def test_lost_answers_to_claims_and_commits(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy, stub: StubProcess
    ) -> None:
        lines = chat_lines(40)
        job = proxied_job.with_spec(sharding={"linesPerShard": 10}).input(lines)
        planned = job.plan()
        s3_proxy.inject("PutObject", LoseAnswer(), times=6)
        (progress,) = job.work(planned)
        assert (progress.completed, progress.shards_completed) == (40, 4)
        job.merge(planned)
        self.everything_once(job, stub, lines)

    def test_a_store_that_is_away_for_longer_than_its_client_tries(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy, stub: StubProcess
    ) -> None:
        lines = chat_lines(20)
        job = proxied_job.with_spec(sharding={"linesPerShard": 10}).input(lines)
        planned = job.plan()
        s3_proxy.inject("*", Answer(503, "SlowDown"), times=6)
        job.work(planned)
        job.merge(planned)
        self.everything_once(job, stub, lines)

    @pytest.mark.parametrize("operation", ["PutObject", "GetObject"])
    def test_what_is_refused_in_the_run_ends_it_with_the_reason(
        self, proxied_job: JobUnderTest, s3_proxy: FaultProxy, operation: str
    ) -> None:
        planned = proxied_job.input(chat_lines(20)).plan()
        s3_proxy.inject(operation, Answer(403, "AccessDenied"))
        process = proxied_job.start_worker(planned)
        assert process.wait() == ExitCode.STORAGE_REFUSED
        report = process.report(FailureReport)
        assert report.reason is Reason.STORAGE_ACCESS_DENIED
        assert f"s3:{operation}" in report.message


def test_folder_markers_and_other_foreign_objects_are_left_alone(bucket_job: JobUnderTest, s3_bucket: S3Bucket) -> None:
    """Consoles make an empty object `folder/` for each folder that a person opens or makes."""
    job = bucket_job.with_spec(sharding={"linesPerShard": 2}).input(chat_lines(4))
    planned = job.plan()
    work = f"out/job/.batchwright/{planned.fingerprint}"
    for folder in ("records", "claims", "claims/1", "segments", "segments/000001", "shards"):
        s3_bucket.put(f"{work}/{folder}/notes.txt", b"somebody's")
        s3_bucket.put(f"{work}/{folder}/", b"")
    job.work(planned, workers=2)
    job.merge(planned)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(4))
