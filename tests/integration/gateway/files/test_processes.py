"""The gateway as a process: what it holds in memory, and what is left when it ends in the middle of an upload."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.ids import is_file_id
from fixtures.files_service import FORM, NO_CERTIFICATES, RawUpload, form, part
from fixtures.gateway import ALICE, bearer
from fixtures.gateway_process import GatewayProcess, gateway_process
from fixtures.s3 import S3Bucket

MEMORY_MIB = 200
LINES, LINE_BYTES = 150_000, 1333
CLIENTS = 100
LINES_OF_A_CLIENT = 5500
"""7.3 MB."""
PATIENCE = 60


@pytest.fixture
def gateway(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path, s3_bucket, limits={"openai": {"bytes": 300_000_000}}) as process:
        yield process


@pytest.fixture
def impatient(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[GatewayProcess]:
    """It waits a second for requests when it is told to stop."""
    with gateway_process(tmp_path, s3_bucket, shutdown_seconds=1) as process:
        yield process


def blocks(lines: int) -> Iterator[bytes]:
    """A form with so many lines, in blocks of some 100 KB; made as they are sent."""
    empty = form(part("purpose", b"batch"), part("file", b"", "a.jsonl"))
    end = empty.index(b"\r\n\r\n", empty.index(b"filename")) + 4
    yield empty[:end]
    for start in range(0, lines, 75):
        yield b"".join(line(number) for number in range(start, min(start + 75, lines)))
    yield empty[end:]


def line(number: int) -> bytes:
    head = b'{"custom_id":"%d","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"' % number
    return head + b"x" * (LINE_BYTES - len(head) - 4) + b'"}}\n'


def client_of(gateway: GatewayProcess) -> httpx.Client:
    return httpx.Client(base_url=gateway.url, headers=bearer(ALICE), timeout=120, verify=NO_CERTIFICATES)


def wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def keys(bucket: S3Bucket) -> list[str]:
    return [entry["Key"] for entry in bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])]


def half_sent(gateway: GatewayProcess, bucket: S3Bucket) -> RawUpload:
    """An upload of which some parts are in the storage, and whose client waits."""
    upload = RawUpload(gateway.url)
    for block in list(blocks(15_000))[:-1]:
        upload.send(block)
    wait_for(bucket.unfinished_uploads)
    return upload


def test_a_file_of_two_hundred_megabytes_never_is_in_memory(gateway: GatewayProcess) -> None:
    with client_of(gateway) as client:
        answer = client.post("/v1/files", content=blocks(LINES), headers=FORM)
        assert (answer.status_code, answer.json()["bytes"]) == (200, LINES * LINE_BYTES)
        received = 0
        with client.stream("GET", f"/v1/files/{answer.json()['id']}/content") as content:
            for chunk in content.iter_raw():
                received += len(chunk)
    assert received == LINES * LINE_BYTES
    assert gateway.peak_mib() < MEMORY_MIB


def test_a_hundred_clients_at_once_upload_and_poll(gateway: GatewayProcess) -> None:
    body = list(blocks(LINES_OF_A_CLIENT))

    def upload_and_poll(_: int) -> str:
        with client_of(gateway) as client:
            created = client.post("/v1/files", content=iter(body), headers=FORM).raise_for_status().json()
            for _ in range(3):
                assert client.get(f"/v1/files/{created['id']}").raise_for_status().json() == created
            assert client.get("/v1/files", params={"limit": 5}).raise_for_status().json()["data"]
            return str(created["id"])

    with ThreadPoolExecutor(CLIENTS) as clients, client_of(gateway) as client:
        created = set(clients.map(upload_and_poll, range(CLIENTS)))
        listed = client.get("/v1/files").json()["data"]
    assert {file["id"] for file in listed} == created
    assert len(created) == CLIENTS
    assert {file["bytes"] for file in listed} == {LINES_OF_A_CLIENT * LINE_BYTES}
    assert gateway.peak_mib() < MEMORY_MIB


def test_a_kill_in_the_middle_leaves_one_upload_to_be_removed(gateway: GatewayProcess, s3_bucket: S3Bucket) -> None:
    half_sent(gateway, s3_bucket)
    gateway.process.kill()
    gateway.process.wait(PATIENCE)
    assert keys(s3_bucket) == []
    assert len(s3_bucket.unfinished_uploads()) == 1
    s3_bucket.store().abort_uploads("batches/team-a/", lambda key: is_file_id(key.rpartition("/")[2]))
    assert s3_bucket.unfinished_uploads() == []


def test_a_stop_in_the_middle_leaves_nothing(impatient: GatewayProcess, s3_bucket: S3Bucket) -> None:
    uploads = [half_sent(impatient, s3_bucket) for _ in range(3)]
    impatient.process.send_signal(signal.SIGTERM)
    impatient.process.wait(PATIENCE)
    assert keys(s3_bucket) == []
    assert s3_bucket.unfinished_uploads() == []
    for upload in uploads:
        upload.close()


def test_a_stop_waits_for_an_upload_that_ends_soon(gateway: GatewayProcess, s3_bucket: S3Bucket) -> None:
    upload = half_sent(gateway, s3_bucket)
    gateway.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refuses_connections(gateway))
    upload.send_all(list(blocks(15_000))[-1:])
    assert upload.answer()[0] == 200
    gateway.process.wait(PATIENCE)
    assert len(keys(s3_bucket)) == 2


def refuses_connections(gateway: GatewayProcess) -> bool:
    try:
        with client_of(gateway) as client:
            client.get("/healthz")
    except httpx.ConnectError:
        return True
    except httpx.TransportError:
        pass  # taken just before, and closed with the rest
    return False
