"""Uploads to an S3 server that fails, piece by piece: and what is left of those that were never finished."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from batchwright.storage.errors import (
    NotFound,
    SizeMismatch,
    StorageError,
    StorageUnavailable,
    UploadMissing,
)
from batchwright.storage.join_plan import MIB
from batchwright.storage.protocol import Upload
from batchwright.storage.s3 import S3Store
from fixtures.fault_proxy import (
    Answer,
    Before,
    FaultProxy,
    LoseAnswer,
    RefuseChecksums,
)
from fixtures.s3 import S3Bucket

DATA = bytes(range(256)) * 4096 * 3  # 3 MiB


@pytest.fixture
def store(open_store: Callable[..., S3Store]) -> S3Store:
    return open_store()


class TestUploading:
    """Objects whose bytes come one after the other."""

    SIZES = (5, 9 * MIB)
    """Of an object that fits one part, and of one that does not."""

    @pytest.fixture
    def upload(self, store: S3Store, tmp_path: Path) -> Upload:
        return store.open_upload("object", spool=tmp_path)

    def fill(self, upload: Upload, size: int) -> bytes:
        data = (DATA * (size // len(DATA) + 1))[:size]
        for start in range(0, size, MIB):
            upload.add(data[start : start + MIB])
        return data

    def write(self, upload: Upload, size: int) -> bytes:
        data = self.fill(upload, size)
        upload.commit()
        return data

    @pytest.mark.parametrize("size", [0, 5, 8 * MIB])
    def test_what_fits_one_part_is_one_plain_write(self, upload: Upload, s3_proxy: FaultProxy, size: int) -> None:
        self.write(upload, size)
        assert s3_proxy.operations == ["PutObject", "HeadObject"]

    def test_parts_are_sent_as_soon_as_they_are_full(self, upload: Upload, s3_proxy: FaultProxy) -> None:
        self.fill(upload, 20 * MIB)
        assert s3_proxy.operations == ["CreateMultipartUpload", "UploadPart", "UploadPart"]
        upload.commit()
        sizes = [len(sent.body) for sent in s3_proxy.requests if sent.operation == "UploadPart"]
        assert sizes == [8 * MIB, 8 * MIB, 4 * MIB]

    @pytest.mark.parametrize("operation", ["PutObject", "CreateMultipartUpload", "UploadPart", "HeadObject"])
    @pytest.mark.parametrize("fault", [Answer(503, "SlowDown"), LoseAnswer()], ids=["503", "lost answer"])
    def test_a_moment_of_trouble_is_survived(
        self, store: S3Store, s3_proxy: FaultProxy, tmp_path: Path, operation: str, fault: Answer | LoseAnswer
    ) -> None:
        """A part that is sent again is sent from its beginning."""
        s3_proxy.inject(operation, fault, times=1)
        for size in self.SIZES:
            data = self.write(store.open_upload("object", spool=tmp_path), size)
            assert b"".join(store.stream("object")) == data

    @pytest.mark.parametrize(
        ("operation", "size"),
        [("PutObject", 5), ("UploadPart", 9 * MIB), ("CompleteMultipartUpload", 9 * MIB)],
    )
    def test_what_fails_is_aborted_and_over(
        self, upload: Upload, s3_proxy: FaultProxy, s3_bucket: S3Bucket, operation: str, size: int
    ) -> None:
        s3_proxy.inject(operation, Answer(503, "SlowDown"))
        with pytest.raises(StorageUnavailable):
            self.write(upload, size)
        assert (s3_proxy.operations[-1] == "AbortMultipartUpload") == (size > MIB)
        assert s3_bucket.unfinished_uploads() == []
        before = len(s3_proxy.requests)
        upload.abort()
        for call in (upload.commit, lambda: upload.add(b"more")):
            with pytest.raises(ValueError, match="over"):
                call()
        assert len(s3_proxy.requests) == before

    def test_an_error_inside_a_200_is_an_error(self, upload: Upload, s3_proxy: FaultProxy, s3_bucket: S3Bucket) -> None:
        s3_proxy.inject("CompleteMultipartUpload", Answer(200, "InternalError", "We encountered an error"))
        with pytest.raises(StorageUnavailable, match="We encountered an error"):
            self.write(upload, 9 * MIB)
        assert s3_bucket.unfinished_uploads() == []
        with pytest.raises(NotFound):
            s3_bucket.store().head("object")

    def test_a_completion_whose_answer_got_lost_is_recognised(
        self, upload: Upload, store: S3Store, s3_proxy: FaultProxy
    ) -> None:
        s3_proxy.inject("CompleteMultipartUpload", LoseAnswer(), times=1)
        s3_proxy.inject("CompleteMultipartUpload", Answer(404, "NoSuchUpload"), times=1)
        data = self.write(upload, 9 * MIB)
        assert "AbortMultipartUpload" not in s3_proxy.operations
        assert b"".join(store.stream("object")) == data

    def test_an_upload_that_somebody_aborted_is_told(self, upload: Upload, store: S3Store) -> None:
        self.fill(upload, 9 * MIB)
        store.abort_uploads("", lambda key: True)
        with pytest.raises(UploadMissing):
            upload.commit()

    @pytest.mark.parametrize("size", SIZES)
    def test_a_wrong_size_is_noticed(
        self, upload: Upload, s3_proxy: FaultProxy, s3_bucket: S3Bucket, size: int
    ) -> None:
        s3_proxy.inject("HeadObject", Before(lambda: s3_bucket.put("object", b"something else")))
        with pytest.raises(SizeMismatch, match="14 bytes instead of"):
            self.write(upload, size)

    def test_a_refused_abort_is_logged_and_hides_nothing(
        self, upload: Upload, s3_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
    ) -> None:
        s3_proxy.inject("UploadPart", Answer(500, "InternalError", "the real reason"))
        s3_proxy.inject("AbortMultipartUpload", Answer(403, "AccessDenied"))
        with caplog.at_level(logging.WARNING), pytest.raises(StorageUnavailable, match="the real reason"):
            self.write(upload, 9 * MIB)
        upload.abort()
        assert caplog.text.count("an unfinished upload was left behind") == 1

    @pytest.mark.parametrize("size", SIZES)
    def test_no_checksum_is_sent_unasked(self, upload: Upload, store: S3Store, s3_proxy: FaultProxy, size: int) -> None:
        s3_proxy.inject("*", RefuseChecksums())
        data = self.write(upload, size)
        assert [request.checksum_headers for request in s3_proxy.requests if request.checksum_headers] == []
        assert b"".join(store.stream("object")) == data

    @pytest.mark.parametrize("size", SIZES)
    def test_an_encryption_key_is_asked_for(
        self, open_store: Callable[..., S3Store], s3_proxy: FaultProxy, tmp_path: Path, size: int
    ) -> None:
        s3_proxy.inject("*", Answer(501, "NotImplemented"))
        with pytest.raises(StorageError):
            self.write(open_store(kms_key_id="key-1").open_upload("object", spool=tmp_path), size)
        assert s3_proxy.operations == ["CreateMultipartUpload" if size > MIB else "PutObject"]
        assert s3_proxy.requests[0].headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"

    def test_a_spool_folder_that_cannot_be_used_is_named(self, store: S3Store, tmp_path: Path) -> None:
        with pytest.raises(StorageUnavailable, match=f"the spool folder {tmp_path}/missing.*No such file"):
            store.open_upload("object", spool=tmp_path / "missing")

    def test_an_abort_waits_for_the_call_that_is_under_way(
        self, upload: Upload, s3_proxy: FaultProxy, s3_bucket: S3Bucket
    ) -> None:
        """As when a client goes away while a part of its upload is sent."""
        aborting = threading.Thread(target=upload.abort)
        s3_proxy.inject("UploadPart", Before(aborting.start), times=1)
        self.fill(upload, 8 * MIB)
        with suppress(ValueError):
            upload.add(b"more")
        aborting.join(20)
        assert s3_proxy.operations == ["CreateMultipartUpload", "UploadPart", "AbortMultipartUpload"]
        assert s3_bucket.unfinished_uploads() == []


class TestUnfinishedUploads:
    """What killed writers left."""

    def begin(self, bucket: S3Bucket, *keys: str) -> None:
        for key in keys:
            bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)

    def test_ones_own_are_aborted_and_no_others(self, store: S3Store, s3_bucket: S3Bucket) -> None:
        self.begin(s3_bucket, "out/job/results.jsonl", "out/job/results.jsonl", "out/job/theirs", "out/other")
        store.abort_uploads("out/job/", lambda key: not key.endswith("theirs"))
        assert sorted(s3_bucket.unfinished_uploads()) == ["out/job/theirs", "out/other"]

    def test_those_that_were_begun_later_are_left_alone(self, store: S3Store, s3_bucket: S3Bucket) -> None:
        self.begin(s3_bucket, "tenant/file-1", "tenant/file-2")
        now = datetime.now(UTC)
        store.abort_uploads("tenant/", lambda key: True, begun_before=now - timedelta(hours=1))
        assert len(s3_bucket.unfinished_uploads()) == 2
        store.abort_uploads("tenant/", lambda key: key == "tenant/file-1", begun_before=now + timedelta(hours=1))
        assert s3_bucket.unfinished_uploads() == ["tenant/file-2"]

    @pytest.mark.parametrize("operation", ["ListMultipartUploads", "AbortMultipartUpload"])
    @pytest.mark.parametrize("fault", [Answer(403, "AccessDenied"), Answer(501, "NotImplemented"), Answer(503, "Busy")])
    def test_where_that_is_refused_nothing_fails(
        self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket, operation: str, fault: Answer
    ) -> None:
        self.begin(s3_bucket, "out/job/a", "out/job/b")
        s3_proxy.inject(operation, fault)
        store.abort_uploads("out/job/", lambda key: True)
        assert len(s3_bucket.unfinished_uploads()) == 2
