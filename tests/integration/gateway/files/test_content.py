"""GET /v1/files/{id}/content: the bytes as they are, whole or in ranges, to clients of any speed."""

import time

import pytest

from fixtures.files_service import LINE, FilesService
from fixtures.gateway import ALICE

CONTENT = bytes(range(32, 127)) * 10 + "ä€😀\r\n".encode()


@pytest.fixture
def file_id(service: FilesService) -> str:
    return service.openai().files.create(file=("Größe.jsonl", CONTENT), purpose="batch").id


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-99", 0, 100),
        ("bytes=900-", 900, len(CONTENT)),
        ("bytes=-7", len(CONTENT) - 7, len(CONTENT)),
        (f"bytes=10-{10**9}", 10, len(CONTENT)),
    ],
)
def test_a_range_is_what_is_asked_for(service: FilesService, file_id: str, asked: str, start: int, end: int) -> None:
    with service.http() as http:
        answer = http.get(f"/v1/files/{file_id}/content", headers={"range": asked})
    assert (answer.status_code, answer.content) == (206, CONTENT[start:end])
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(end - start)


def test_a_range_behind_the_end_is_refused_and_tells_the_size(service: FilesService, file_id: str) -> None:
    with service.http() as http:
        answer = http.get(f"/v1/files/{file_id}/content", headers={"range": f"bytes={len(CONTENT)}-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(CONTENT)}")
    assert answer.json()["error"]["code"] == "invalid_range"


def test_a_range_that_cant_be_read_gives_the_whole_file(service: FilesService, file_id: str) -> None:
    with service.http() as http:
        answer = http.get(f"/v1/files/{file_id}/content", headers={"range": "bytes=0-1,4-5"})
    assert (answer.status_code, answer.content) == (200, CONTENT)


def test_a_broken_off_download_is_taken_up_only_of_the_same_bytes(service: FilesService, file_id: str) -> None:
    with service.http() as http:
        whole = http.get(f"/v1/files/{file_id}/content")
        path, etag = f"/v1/files/{file_id}/content", whole.headers["etag"]
        assert http.get(path, headers={"range": "bytes=5-", "if-range": etag}).content == CONTENT[5:]
        assert http.get(path, headers={"range": "bytes=5-", "if-range": '"other"'}).content == CONTENT


@pytest.mark.parametrize("accept", ["application/binary", "application/json", "text/html", "nonsense"])
def test_whatever_a_client_accepts_it_gets_the_bytes(service: FilesService, file_id: str, accept: str) -> None:
    with service.http() as http:
        answer = http.get(f"/v1/files/{file_id}/content", headers={"accept": accept})
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe.jsonl"


def test_head_tells_what_get_would(service: FilesService, file_id: str) -> None:
    path = f"/v1/files/{file_id}/content"
    with service.http() as http:
        got, told = http.get(path), http.head(path)
        ranged = http.head(path, headers={"range": "bytes=0-9"})
        missing = http.head(f"/v1/files/file-{'0' * 32}/content")
    assert (told.status_code, told.content) == (200, b"")
    names = ["content-length", "etag", "accept-ranges", "content-type"]
    assert [told.headers[name] for name in names] == [got.headers[name] for name in names]
    assert (ranged.status_code, ranged.headers["content-length"]) == (206, "10")
    assert missing.status_code == 404


def test_an_empty_file_has_empty_content_and_no_range(service: FilesService) -> None:
    created = service.openai().files.create(file=("empty", b""), purpose="batch")
    with service.http() as http:
        whole = http.get(f"/v1/files/{created.id}/content")
        ranged = http.get(f"/v1/files/{created.id}/content", headers={"range": "bytes=0-"})
    assert (whole.status_code, whole.content, ranged.status_code) == (200, b"", 416)


def test_bytes_that_somebody_removed_are_no_file(service: FilesService, file_id: str) -> None:
    folder = service.gateway.tenant(str(ALICE.namespace))
    folder.store.delete([folder.key(file_id)])
    with service.http() as http:
        answers = [http.get(f"/v1/files/{file_id}/content"), http.head(f"/v1/files/{file_id}/content")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json()["error"]["message"] == f"No such File object: {file_id}"


def test_a_download_that_is_broken_off_does_no_harm(service: FilesService) -> None:
    content = LINE * (8_000_000 // len(LINE))
    created = service.openai().files.create(file=("big", content), purpose="batch")
    with service.http() as http:
        for _ in range(40):
            with http.stream("GET", f"/v1/files/{created.id}/content") as answer:
                next(answer.iter_raw())
    assert service.openai().files.content(created.id).content == content


def test_clients_that_read_slowly_hold_up_nobody(s3_service: FilesService) -> None:
    """More of them than there are threads."""
    content = LINE * (8_000_000 // len(LINE))
    created = s3_service.openai().files.create(file=("big", content), purpose="batch")
    with s3_service.http() as http:
        streams = [http.stream("GET", f"/v1/files/{created.id}/content") for _ in range(60)]
        answers = [stream.__enter__() for stream in streams]
        time.sleep(0.5)
        assert s3_service.openai().files.retrieve(created.id).bytes == len(content)
        assert b"".join(answers[-1].iter_raw()) == content
        for stream in streams:
            stream.__exit__(None, None, None)
