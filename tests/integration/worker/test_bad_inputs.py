"""A person's mistake ends in a reason and a remedy, and never in a wait without end."""

from dataclasses import replace
from pathlib import Path

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, PlanReport
from batchwright.worker.failures import StageFailed, failure_of
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_lines
from stub.harness import StubProcess


@pytest.fixture
def bucket_job(job: JobUnderTest, s3_bucket: S3Bucket) -> JobUnderTest:
    """The job in a bucket."""
    return job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url))


def failure_of_plan(job: JobUnderTest) -> StageFailed:
    with pytest.raises(Exception) as failure:  # noqa: PT011 - whatever it is, its report is looked at
        job.plan()
    return failure_of(failure.value)


def test_an_unknown_scheme(job: JobUnderTest) -> None:
    process = job.with_spec(input={"uri": "gs://bucket/key"}).start("plan")
    assert process.wait() == ExitCode.CONFIGURATION_INVALID
    report = process.report(FailureReport)
    assert report.reason is Reason.INVALID_SPEC
    assert "batchjob.spec.input.uri" in report.message
    assert "s3://" in report.message
    assert "http" not in report.message


def test_a_job_file_that_is_not_there(job: JobUnderTest) -> None:
    process = job.start("--job", "/nowhere/job.json", "plan")
    assert process.wait() == ExitCode.CONFIGURATION_INVALID
    assert "/nowhere/job.json can't be used: No such file" in process.report(FailureReport).message


def test_a_bucket_that_does_not_exist(bucket_job: JobUnderTest) -> None:
    job = bucket_job.with_spec(output={"uri": "s3://no-such-bucket/out/"})
    failure = failure_of_plan(job.input(chat_lines(1)))
    assert failure.report.reason is Reason.BUCKET_NOT_FOUND
    assert "s3://no-such-bucket/" in failure.report.message
    assert "Check the bucket's name" in failure.report.message


def test_a_folder_that_does_not_exist(job: JobUnderTest) -> None:
    failure = failure_of_plan(job.with_spec(input={"uri": "file:///nowhere/at/all.jsonl"}))
    assert failure.report.reason is Reason.BUCKET_NOT_FOUND
    assert "file:///nowhere/at/" in failure.report.message
    assert "worker.volumeMounts" in failure.report.message


@pytest.mark.parametrize(("key", "secret"), [("nobody", "nothing"), ("root", "wrong")])
def test_wrong_credentials(bucket_job: JobUnderTest, key: str, secret: str, tmp_path: Path) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "AWS_ACCESS_KEY_ID").write_text(key)
    (folder / "AWS_SECRET_ACCESS_KEY").write_text(secret)
    bucket_job.input(chat_lines(1))
    failure = failure_of_plan(bucket_job.at(replace(bucket_job.place, credentials=folder)))
    assert failure.code == ExitCode.STORAGE_REFUSED
    assert failure.report.reason is Reason.STORAGE_CREDENTIALS_INVALID
    assert "Secret" in failure.report.message


def test_a_store_that_is_down(bucket_job: JobUnderTest) -> None:
    place = replace(bucket_job.place, storage={"endpointURL": "http://127.0.0.1:9"})
    failure = failure_of_plan(bucket_job.at(place))
    assert failure.report.reason is Reason.STORAGE_UNREACHABLE
    assert not failure.report.final
    assert "http://127.0.0.1:9" in failure.report.message
    assert "Check endpointURL" in failure.report.message


def test_a_model_server_that_is_down(job: JobUnderTest) -> None:
    failure = failure_of_plan(replace(job, server_url="http://127.0.0.1:9").input(chat_lines(1)))
    assert failure.report.reason is Reason.SERVER_UNREACHABLE
    assert not failure.report.final
    assert "http://127.0.0.1:9" in failure.report.message
    assert "correct spec.server" in failure.report.message


def test_a_certificate_authority_that_is_none(job: JobUnderTest) -> None:
    (job.folder / "ca" / "server").mkdir(parents=True)
    (job.folder / "ca" / "server" / "ca.crt").write_text("no PEM")
    failure = failure_of_plan(replace(job, server_url="https://127.0.0.1:9").input(chat_lines(1)))
    assert (failure.code, failure.report.reason) == (ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC)
    assert "CA bundle" in failure.report.message
    assert "spec.server" in failure.report.message


@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_a_wrong_api_key(job: JobUnderTest, stub: StubProcess, key: str | None) -> None:
    stub.switch(api_keys=["sk-right"])
    if key:
        (job.folder / "server").mkdir()
        (job.folder / "server" / "api-key").write_text(key)
    failure = failure_of_plan(job.input(chat_lines(1)))
    assert (failure.code, failure.report.reason) == (ExitCode.SERVER_REFUSED, Reason.SERVER_UNAUTHORIZED)
    assert "spec.server.apiKeySecretRef" in failure.report.message
    assert stub.arrivals().total == 0


@pytest.mark.parametrize("stage", ["run", "merge"])
def test_a_plan_that_is_gone(job: JobUnderTest, stage: str) -> None:
    job.input(chat_lines(1)).plan()
    planned = PlanReport(fingerprint="0" * 16, plan_uri="", lines=1, shards=1, endpoint="/v1/x")
    with pytest.raises(Exception, match="plan record is missing") as failure:
        job.work(planned) if stage == "run" else job.merge(planned)
    assert failure_of(failure.value).code == ExitCode.PLAN_UNREADABLE


def test_an_input_that_changes_after_the_plan(job: JobUnderTest, stub: StubProcess) -> None:
    planned = job.input(chat_lines(3)).plan()
    job.input(chat_lines(3, prefix="other-"))
    process = job.start_worker(planned)
    assert process.wait() == ExitCode.INPUT_CHANGED
    assert process.report(FailureReport).reason is Reason.INPUT_CHANGED
    assert stub.arrivals().total == 0
