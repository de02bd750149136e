"""POST /v1/files on real sockets and real storage: what comes in whole is there, anything else leaves nothing."""

import gzip
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from batchwright.gateway.files.inspection import HELD_BYTES
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import RecordStore
from fixtures.fault_proxy import Answer, Before, FaultProxy, LoseAnswer
from fixtures.files_service import (
    FORM,
    LINE,
    FilesService,
    RawUpload,
    files_service,
    form,
    part,
    upload_form,
)
from fixtures.gateway import ADMIN, ALICE, running_gateway
from fixtures.s3 import S3Bucket

NAMESPACE = str(ALICE.namespace)
LIMIT = 1_000_000


def post(
    service: FilesService, body: bytes | Iterator[bytes], path: str = "/v1/files", **headers: str
) -> httpx.Response:
    with service.http() as http:
        return http.post(path, content=body, headers=FORM | headers)


def record_of(service: FilesService, file_id: str) -> FileRecord:
    stored = service.gateway.files.get(NAMESPACE, file_id)
    assert stored is not None
    return stored.record


def nothing_is_left(service: FilesService, seconds: float = 20) -> bool:
    """Within some seconds, since an upload is aborted after its client has gone."""
    end = time.monotonic() + seconds
    while service.stored() and time.monotonic() < end:
        time.sleep(0.05)
    return service.stored() == []


def test_the_official_client_uploads_and_reads_the_same_bytes_at_once(service: FilesService) -> None:
    client, content = service.openai(), LINE * 3
    created = client.files.create(file=("in.jsonl", content), purpose="batch")
    assert client.files.content(created.id).content == content
    assert client.files.wait_for_processing(created.id, poll_interval=60) == created
    with service.http() as http:
        shown = http.get(f"/v1/files/{created.id}").json()
    assert abs(shown.pop("created_at") - time.time()) < 60
    assert shown == {
        "id": created.id,
        "object": "file",
        "bytes": len(content),
        "filename": "in.jsonl",
        "purpose": "batch",
        "status": "processed",
        "expires_at": None,
        "status_details": None,
    }


def test_an_upload_lies_under_its_id_in_the_tenants_folder(service: FilesService) -> None:
    created = service.openai().files.create(file=io.BytesIO(LINE), purpose="batch")
    assert service.stored() == [f".gateway/files/{NAMESPACE}/{created.id}.json", f"{NAMESPACE}/{created.id}"]
    assert created.filename == "upload"


def test_parts_come_in_any_order_and_a_trailing_slash_does_no_harm(service: FilesService) -> None:
    parts = [
        part("file", LINE, "a.jsonl"),
        part("expires_after[seconds]", b"3600"),
        part("unknown", b"x"),
        part("expires_after[anchor]", b"created_at"),
        part("purpose", b"batch"),
    ]
    for body in (form(*parts), form(*reversed(parts))):
        answer = post(service, body, "/v1/files/")
        assert answer.status_code == 200, answer.text
        created = answer.json()
        assert created["expires_at"] - created["created_at"] == 3600
        assert created["filename"] == "a.jsonl"


def test_a_body_of_unknown_length_comes_in_chunks(service: FilesService) -> None:
    body = upload_form(LINE * 1000)
    answer = post(service, (body[at : at + 777] for at in range(0, len(body), 777)))
    assert answer.json()["bytes"] == len(LINE) * 1000


def test_an_empty_file_is_taken_since_the_batch_will_say_what_is_wrong(service: FilesService) -> None:
    created = post(service, upload_form(b"")).json()
    assert created["bytes"] == 0
    assert service.openai().files.content(created["id"]).content == b""


def test_the_record_knows_lines_model_user_and_the_bytes_etag(service: FilesService) -> None:
    record = record_of(service, post(service, upload_form(b"\xef\xbb\xbf\n" + LINE + b"\r\n" + LINE)).json()["id"])
    assert (record.lines, record.model, record.user) == (2, "llama", "alice")
    folder = service.gateway.tenant(NAMESPACE)
    assert record.etag == folder.store.head(folder.key(record.key)).etag


@pytest.mark.parametrize("end", [b"", b"\n" + LINE])
def test_the_model_is_found_in_a_first_line_of_many_megabytes(service: FilesService, end: bytes) -> None:
    line = json.dumps({"custom_id": "a", "body": {"input": "x" * 9 * HELD_BYTES, "model": "long"}}).encode()
    assert record_of(service, post(service, upload_form(b"\n" + line + end)).json()["id"]).model == "long"


def test_a_file_of_several_parts_of_the_storage_is_whole(service: FilesService) -> None:
    content = LINE * (20_000_000 // len(LINE))
    created = service.openai().files.create(file=("big", content), purpose="batch")
    assert service.openai().files.content(created.id).content == content
    assert record_of(service, created.id).lines == len(content) // len(LINE)


@pytest.mark.parametrize(
    ("body", "headers", "code", "param"),
    [
        (form(part("purpose", b"batch")), {}, "missing_required_parameter", "file"),
        (form(part("file", LINE)), {}, "missing_required_parameter", "purpose"),
        (form(part("file", LINE), part("purpose", b"assistants")), {}, "invalid_value", "purpose"),
        (form(part("purpose", b"batch"), part("file", LINE), part("file", LINE)), {}, "invalid_value", "file"),
        (form(part("file", LINE), part("x", b"y" * 5000)), {}, "invalid_value", "x"),
        (form(part("file", LINE), *[part(f"x{n}", b"y") for n in range(100)]), {}, "invalid_multipart", None),
        (upload_form(LINE, "n" * 256), {}, "invalid_value", "file"),
        (upload_form(LINE, "n" * 20_000), {}, "invalid_multipart", None),
        (upload_form(LINE, "a\tb"), {}, "invalid_value", "file"),
        (upload_form(LINE * 9000 + b"\xff\n"), {}, "invalid_value", "file"),
        (upload_form(gzip.compress(LINE)), {}, "invalid_value", "file"),
        (upload_form(LINE + b"\xe2\x82"), {}, "invalid_value", "file"),
        (upload_form(LINE * 9000)[:-20], {}, "invalid_multipart", None),
        (upload_form(LINE) + b"x" * 2_000_000, {}, "invalid_multipart", None),
        (b"", {}, "invalid_multipart", None),
        (b"{}", {"content-type": "application/json"}, "invalid_multipart", None),
        (upload_form(), {"content-type": "multipart/form-data"}, "invalid_multipart", None),
        (upload_form(), {"content-type": "multipart/form-data; boundary=other"}, "invalid_multipart", None),
    ],
)
def test_what_cant_be_a_file_is_refused_and_leaves_nothing(
    s3_service: FilesService, body: bytes, headers: dict[str, str], code: str, param: str | None
) -> None:
    answer = post(s3_service, body, **headers)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"]
    assert nothing_is_left(s3_service)


def test_an_administrator_must_say_for_whom_it_uploads(service: FilesService) -> None:
    with service.http(ADMIN) as http:
        assert http.post("/v1/files", content=upload_form(), headers=FORM).json()["error"]["param"] == "OpenAI-Project"
        answer = http.post("/v1/files", content=upload_form(), headers=FORM | {"openai-project": NAMESPACE})
    assert service.openai().files.retrieve(answer.json()["id"]).bytes == len(LINE)


class TestTooLarge:
    """A limit that a tenant's settings lower to a megabyte."""

    @pytest.fixture
    def service(self, s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[FilesService]:
        tenants = {NAMESPACE: {"limits": {"openai": {"bytes": LIMIT}}}}
        with files_service(tmp_path, s3_bucket, tenants=tenants) as running:
            yield running

    @staticmethod
    def refused(answer: tuple[int, bytes]) -> None:
        status, body = answer
        error = json.loads(body)["error"]
        assert (status, error["code"], error["param"]) == (413, "request_too_large", "file")
        assert str(LIMIT) in error["message"]

    def test_a_file_of_just_the_limit_is_taken(self, service: FilesService) -> None:
        assert post(service, upload_form(b"x" * LIMIT)).json()["bytes"] == LIMIT
        assert post(service, upload_form(b"x" * (LIMIT + 1))).status_code == 413

    @pytest.mark.parametrize("announced", [True, False])
    def test_the_answer_reaches_a_client_that_reads_nothing_before_it_has_sent_all(
        self, service: FilesService, announced: bool
    ) -> None:
        body = upload_form(LINE * 300_000)
        upload = RawUpload(service.url, length=len(body) if announced else None)
        upload.send_all(body[at : at + 65_536] for at in range(0, len(body), 65_536))
        self.refused(upload.answer())
        assert nothing_is_left(service)

    def test_the_answer_comes_as_soon_as_the_limit_is_passed(self, service: FilesService) -> None:
        upload = RawUpload(service.url)
        upload.send(upload_form(b"x" * LIMIT)[:-30])
        for _ in range(5):
            upload.send(b"x" * 1000)
        self.refused(upload.answer())
        upload.close()

    def test_a_client_that_asks_before_it_sends_need_not_send(self, service: FilesService) -> None:
        upload = RawUpload(service.url, length=100 * LIMIT, Expect="100-continue")
        self.refused(upload.answer())
        assert upload.socket.recv(1) == b""  # the connection ends at once

    def test_the_official_client_gets_the_reason(self, service: FilesService) -> None:
        with pytest.raises(Exception, match=f"larger than {LIMIT} bytes"):
            service.openai().files.create(file=("big", LINE * 300_000), purpose="batch")


@pytest.mark.parametrize("size", [0, 300_000, 20_000_000])
def test_a_client_that_goes_away_leaves_nothing(service: FilesService, size: int) -> None:
    upload = RawUpload(service.url)
    upload.send(upload_form(b"x" * size)[:-30])
    if size > 10_000_000:
        wait_for(lambda: service.stored() != [])
    upload.close()
    wait_for(lambda: bool(service.audited.lines))
    assert nothing_is_left(service)
    assert service.audited.lines[0]["status"] == 400


def wait_for(what: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_clients_that_send_slowly_hold_up_nobody(s3_service: FilesService) -> None:
    """More of them than there are threads of any kind."""
    slow = [RawUpload(s3_service.url) for _ in range(80)]
    for upload in slow:
        upload.send(upload_form(LINE * 4000)[:-30])
    client = s3_service.openai()
    created = client.files.create(file=("quick", LINE), purpose="batch")
    assert client.files.content(created.id).content == LINE
    for upload in slow:
        upload.send_all([upload_form(LINE * 4000)[-30:]])
    assert {upload.answer()[0] for upload in slow} == {200}
    assert len(client.files.list().data) == 81


def test_an_upload_that_takes_too_long_is_ended(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    with files_service(tmp_path, s3_bucket, uploadDeadline="1s") as service:
        upload = RawUpload(service.url)
        upload.send(upload_form(LINE)[:-30])
        status, body = upload.answer()
        assert (status, json.loads(body)["error"]["code"]) == (408, "request_timeout")
        upload.close()
        assert nothing_is_left(service)


class TestFailingStorage:
    """Answers of the storage that make an upload fail."""

    @pytest.fixture
    def service(self, s3_bucket: S3Bucket, s3_proxy: FaultProxy, tmp_path: Path) -> Iterator[FilesService]:
        with files_service(tmp_path, s3_bucket, s3_proxy.endpoint_url) as running:
            yield running

    @pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"])
    def test_a_refused_write_is_an_error_and_leaves_nothing(
        self, service: FilesService, s3_proxy: FaultProxy, operation: str
    ) -> None:
        s3_proxy.inject(operation, Answer(403, "AccessDenied"))
        answer = post(service, upload_form(LINE * 200_000))
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "storage_error")
        assert nothing_is_left(service)

    def test_an_upload_whose_record_cant_be_written_leaves_no_bytes(
        self, service: FilesService, tmp_path: Path
    ) -> None:
        class Unwritable(RecordStore[FileRecord]):
            def create(self, *_: object) -> Any:
                raise OSError("no record today")

        records = Unwritable(service.gateway.root, f"{service.gateway.root_prefix}files/", FileRecord)
        with running_gateway(replace(service.gateway, files=records)) as url, service.http() as http:
            answer = http.post(f"{url}/v1/files", content=upload_form(), headers=FORM)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
        assert "record today" not in answer.text
        assert nothing_is_left(service)

    def test_a_record_that_is_written_though_the_storage_never_said_so_goes_with_the_bytes(
        self, service: FilesService, s3_proxy: FaultProxy
    ) -> None:
        """Otherwise there'd be a file without bytes."""
        s3_proxy.inject("PutObject", Before(lambda: None), times=1)
        s3_proxy.inject("PutObject", LoseAnswer(), times=1)
        s3_proxy.inject("PutObject", Answer(503, "SlowDown"))
        assert post(service, upload_form()).status_code == 503
        assert nothing_is_left(service)
