"""Joins of an S3 store against a server that fails: through a proxy that injects the faults, before a real server."""

import logging
from collections.abc import Callable

import pytest

from batchwright.storage import patience
from batchwright.storage.errors import (
    AccessDenied,
    NotFound,
    SizeMismatch,
    StorageUnavailable,
    UploadMissing,
)
from batchwright.storage.join_plan import MIB
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import Literal, ObjectRange
from batchwright.storage.s3 import S3Store
from fixtures.fault_proxy import (
    Answer,
    Before,
    Cut,
    EmptyAnswer,
    FaultProxy,
    LoseAnswer,
)
from fixtures.s3 import S3Bucket


@pytest.fixture
def store(open_store: Callable[..., S3Store]) -> S3Store:
    return open_store()


class TestJoining:
    PIECES = (ObjectRange("piece", 0, 18 * MIB), Literal(b"end"))
    EXPECTED = bytes(18 * MIB) + b"end"

    @pytest.fixture(autouse=True)
    def _piece(self, s3_bucket: S3Bucket) -> None:
        s3_bucket.put("piece", bytes(18 * MIB))

    def content(self, store: S3Store) -> bytes:
        return b"".join(store.stream("joined"))

    def test_large_pieces_are_copied_by_the_store(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        store.join("joined", self.PIECES)
        assert "UploadPartCopy" in s3_proxy.operations
        assert "GetObject" not in s3_proxy.operations
        assert self.content(store) == self.EXPECTED

    @pytest.mark.parametrize(
        "fault",
        [
            Answer(501, "NotImplemented"),
            Answer(405, "MethodNotAllowed"),
            Answer(400, "InvalidRequest"),
            Answer(403, "AccessDenied"),
            EmptyAnswer(),
        ],
        ids=lambda fault: str(fault)[:40],
    )
    def test_without_part_copies_it_is_streamed(
        self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket, fault: Answer | EmptyAnswer
    ) -> None:
        s3_proxy.inject("UploadPartCopy", fault)
        reported: list[int] = []
        store.join("joined", self.PIECES, progress=reported.append)
        assert self.content(store) == self.EXPECTED
        assert sum(reported) == len(self.EXPECTED)
        assert s3_bucket.unfinished_uploads() == []

    def test_a_store_without_part_copies_is_asked_only_once(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("UploadPartCopy", Answer(501, "NotImplemented"))
        store.join("joined", self.PIECES)
        asked = s3_proxy.operations.count("UploadPartCopy")
        store.join("joined", self.PIECES)
        assert s3_proxy.operations.count("UploadPartCopy") == asked

    def test_an_error_inside_a_200_is_an_error(self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket) -> None:
        s3_proxy.inject("CompleteMultipartUpload", Answer(200, "InternalError", "We encountered an error"))
        with pytest.raises(StorageUnavailable, match="We encountered an error"):
            store.join("joined", self.PIECES)
        assert s3_bucket.unfinished_uploads() == []
        with pytest.raises(NotFound):
            store.head("joined")

    def test_an_error_inside_a_200_is_retried(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("CompleteMultipartUpload", Answer(200, "InternalError"), times=1)
        store.join("joined", self.PIECES)
        assert self.content(store) == self.EXPECTED

    def test_a_completion_whose_answer_got_lost_is_recognised(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("CompleteMultipartUpload", LoseAnswer(), times=1)
        s3_proxy.inject("CompleteMultipartUpload", Answer(404, "NoSuchUpload"), times=1)
        assert store.join("joined", self.PIECES).size == len(self.EXPECTED)
        assert s3_proxy.operations.count("CompleteMultipartUpload") == 2
        assert self.content(store) == self.EXPECTED

    def test_an_older_object_is_not_taken_for_a_completion(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        store.join("joined", [ObjectRange("piece", 0, 18 * MIB), Literal(b"old")])
        s3_proxy.inject("CompleteMultipartUpload", Answer(404, "NoSuchUpload"))
        with pytest.raises(StorageUnavailable):
            store.join("joined", self.PIECES)

    def test_a_wrong_size_is_noticed(self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket) -> None:
        def replace() -> None:
            s3_bucket.put("joined", b"something else")

        s3_proxy.inject("HeadObject", Before(replace))
        with pytest.raises(SizeMismatch, match="14 bytes instead of"):
            store.join("joined", [*self.PIECES, Literal(b"!")])

    @pytest.mark.parametrize("operation", ["UploadPart", "UploadPartCopy", "CompleteMultipartUpload"])
    def test_what_fails_is_aborted(
        self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket, operation: str
    ) -> None:
        s3_proxy.inject(operation, Answer(500, "InternalError"))
        with pytest.raises(StorageUnavailable):
            store.join("joined", self.PIECES)
        assert s3_proxy.operations[-1] == "AbortMultipartUpload"
        assert s3_bucket.unfinished_uploads() == []

    def test_a_refused_abort_is_logged_and_hides_nothing(
        self, store: S3Store, s3_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
    ) -> None:
        s3_proxy.inject("UploadPart", Answer(500, "InternalError", "the real reason"))
        s3_proxy.inject("AbortMultipartUpload", Answer(403, "AccessDenied"))
        with caplog.at_level(logging.WARNING), pytest.raises(StorageUnavailable, match="the real reason"):
            store.join("joined", self.PIECES)
        assert "s3:AbortMultipartUpload" in caplog.text

    def test_pieces_that_are_cut_are_read_on(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("UploadPartCopy", Answer(501, "NotImplemented"))
        s3_proxy.inject("GetObject", Cut(after=3 * MIB), times=3)
        store.join("joined", self.PIECES)
        assert self.content(store) == self.EXPECTED


class TestPatientJoins:
    """Minutes without a store, in the midst of a join: what was joined before is not joined again."""

    PIECES = (*(ObjectRange("piece", 0, 9 * MIB) for _ in range(3)), Literal(b"end"))
    EXPECTED = bytes(27 * MIB) + b"end"

    @pytest.fixture(autouse=True)
    def _arranged(self, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        s3_bucket.put("piece", bytes(9 * MIB))
        monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)

    @pytest.mark.parametrize("copies", [True, False])
    @pytest.mark.parametrize(
        "operation", ["GetObject", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "HeadObject"]
    )
    def test_an_outage_at_any_moment_is_waited_out(
        self, store: S3Store, s3_proxy: FaultProxy, s3_bucket: S3Bucket, operation: str, copies: bool
    ) -> None:
        if not copies:
            s3_proxy.inject("UploadPartCopy", Answer(501, "NotImplemented"), times=3)
        s3_proxy.inject(operation, Answer(503, "SlowDown"), times=5)  # the client tries each call twice
        reported: list[int] = []
        info = store.join("joined", self.PIECES, progress=reported.append, patience=Patience(60.0))
        assert info.size == sum(reported) == len(self.EXPECTED)
        assert b"".join(s3_bucket.store().stream("joined")) == self.EXPECTED
        assert s3_proxy.operations.count("CreateMultipartUpload") == (1 if copies else 2)
        assert s3_bucket.unfinished_uploads() == []

    def test_parts_that_were_sent_are_not_sent_again(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("UploadPartCopy", Before(lambda: None), times=2)
        s3_proxy.inject("UploadPartCopy", Answer(503, "SlowDown"), times=4)
        store.join("joined", self.PIECES, patience=Patience(60.0))
        assert s3_proxy.operations.count("UploadPartCopy") == 3 + 4
        assert s3_proxy.operations.count("CreateMultipartUpload") == 1

    def test_an_upload_that_somebody_aborted_is_not_gone_on_with(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("UploadPartCopy", Answer(404, "NoSuchUpload"))
        with pytest.raises(UploadMissing):
            store.join("joined", self.PIECES, patience=Patience(60.0))

    def test_what_is_refused_is_not_tried_for_minutes(self, store: S3Store, s3_proxy: FaultProxy) -> None:
        s3_proxy.inject("UploadPart", Answer(403, "AccessDenied"))
        with pytest.raises(AccessDenied):
            store.join("joined", self.PIECES, patience=Patience(60.0))
