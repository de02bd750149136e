"""The storage's Secret is rotated in mid-way, and the old keys are refused before the new ones are mounted."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport
from batchwright.storage import patience as storage_patience
from batchwright.storage.errors import StorageError
from batchwright.storage.factory import open_store
from batchwright.worker import stage as stage_module
from batchwright.worker.failures import failure_of
from batchwright.worker.merge_stage import merge_patiently
from batchwright.worker.run import patience as run_patience
from fixtures.fault_proxy import Before, FaultProxy
from fixtures.s3 import MountedSecret, S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, ids, wait_until
from stub.harness import StubProcess

REFUSED = "the store refuses credentials that it accepted before"


class Keys:
    """An account that may do everything with a bucket, and its keys as they are mounted."""

    def __init__(self, bucket: S3Bucket, folder: Path) -> None:
        self.bucket = bucket
        self.account = bucket.server.create_account()
        bucket.allow(self.account, "s3:*")
        self.secret = MountedSecret(folder, self.account)
        self.rotated = threading.Event()

    def rotate(self) -> None:
        """The mounted keys are refused from now on."""
        self.account = self.bucket.server.rotate(self.account)
        self.rotated.set()

    def mount(self) -> None:
        """The kubelet brings the new keys."""
        self.secret.swap(self.account)

    @contextmanager
    def mounted_once_refused(self, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        """The same, some time after the store refused the old ones."""

        def mount() -> None:
            wait_until(lambda: self.rotated.is_set() and REFUSED in caplog.text, 150)
            self.mount()

        with ThreadPoolExecutor(1) as kubelet:
            mounting = kubelet.submit(mount)
            yield
            mounting.result()


@pytest.fixture
def keys(s3_bucket: S3Bucket, tmp_path: Path) -> Keys:
    return Keys(s3_bucket, tmp_path / "mounted")


@pytest.fixture
def bucket_job(
    job: JobUnderTest, keys: Keys, s3_proxy: FaultProxy, stub: StubProcess, monkeypatch: pytest.MonkeyPatch
) -> JobUnderTest:
    """The job with the mounted keys, in a bucket behind the proxy, and with pauses that are short."""
    for module in (storage_patience, run_patience):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)
    stub.switch(delay="0.05")
    place = replace(bucket_place(keys.bucket, s3_proxy.endpoint_url), credentials=keys.secret.folder)
    return job.at(place).with_spec(sharding={"linesPerShard": 10}, requests={"maxConcurrency": 4})


@contextmanager
def standing_still(stub: StubProcess) -> Iterator[None]:
    """A slow run gets no answer while something takes its time, to be in its midst after it, and then is quick."""
    stub.switch(freeze=True)
    yield
    stub.switch(freeze=False, delay="0.05")


def test_a_run_pauses_until_the_new_keys_are_mounted(
    bucket_job: JobUnderTest,
    keys: Keys,
    s3_proxy: FaultProxy,
    stub: StubProcess,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = chat_lines(80)
    planned = bucket_job.input(lines).plan()
    stub.switch(delay="0.2")
    with bucket_job.working(planned) as working:
        wait_until(lambda: working.progress().shards_completed)
        with standing_still(stub):
            keys.rotate()
        wait_until(lambda: REFUSED in caplog.text)
        asked = len(s3_proxy.requests)
        wait_until(lambda: len(s3_proxy.requests) >= asked + 3)
        before = working.progress()
        keys.mount()
        progress = working.end()
    assert before.shards_completed < 8, "the keys were refused in mid-way"
    assert (progress.completed, progress.failed, progress.shards_completed) == (80, 0, 8)
    # Once for each of the two stores that met it: the output's, and the input's where a shard was being opened.
    assert caplog.text.count(REFUSED) in (1, 2)
    assert "storage is away" not in caplog.text
    assert bucket_job.merge(planned).request_counts.completed == 80
    assert ids(bucket_job.published("results.jsonl")) == ids(lines)
    assert stub.arrivals().arrived == dict.fromkeys(ids(lines), 1)


def test_a_run_whose_keys_never_come_back_ends_with_the_reason(
    bucket_job: JobUnderTest, keys: Keys, stub: StubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_impatient(location: Any, settings: Any, **rest: Any) -> Any:
        return open_store(location, replace(settings, rotation_seconds=0.5), **rest)

    monkeypatch.setattr(stage_module, "open_store", open_impatient)
    planned = bucket_job.input(chat_lines(80)).plan()
    stub.switch(delay="0.2")
    with bucket_job.working(planned) as working:
        wait_until(lambda: working.progress().shards_completed)
        with standing_still(stub):
            keys.bucket.server.delete_user(keys.account)
        with pytest.raises((StorageError, ExceptionGroup)) as caught:
            working.end()
    failure = failure_of(caught.value)
    assert (failure.code, failure.report.reason) == (ExitCode.STORAGE_REFUSED, Reason.STORAGE_CREDENTIALS_INVALID)
    assert failure.report.final
    assert "the credentials are not accepted (InvalidAccessKeyId" in failure.report.message
    assert "Check the keys in the Secret" in failure.report.message


@pytest.mark.parametrize("moment", ["ListObjectsV2", "UploadPartCopy", "CompleteMultipartUpload"])
def test_a_merge_pauses_and_goes_on_where_it_was(
    bucket_job: JobUnderTest,
    keys: Keys,
    s3_proxy: FaultProxy,
    caplog: pytest.LogCaptureFixture,
    moment: str,
) -> None:
    lines = [chat_line(f"id-{n}", "size=1MiB") for n in range(20)]
    job = bucket_job.input(lines)
    planned = job.plan()
    job.work(planned)
    s3_proxy.inject(moment, Before(keys.rotate), times=1)
    with keys.mounted_once_refused(caplog):
        report = merge_patiently(job.stage(), fingerprint=planned.fingerprint, run=1, port=0)
    assert isinstance(report, MergeReport)
    assert (report.request_counts.completed, report.warnings) == (20, ())
    assert ids(job.published("results.jsonl")) == ids(lines)
    assert s3_proxy.operations.count("CreateMultipartUpload") == 1, "nothing was joined anew"
    assert keys.bucket.unfinished_uploads() == []
    assert caplog.text.count(REFUSED) == 1
