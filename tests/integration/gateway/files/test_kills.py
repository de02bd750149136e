"""A gateway that is killed at a step of an upload or of a deletion: the keeper of another one finds what is left."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from fixtures.cluster import eventually
from fixtures.fault_proxy import Before, FaultProxy
from fixtures.files_service import FORM, LINE, NO_CERTIFICATES, RawUpload, upload_form
from fixtures.gateway import ALICE, bearer
from fixtures.gateway_process import GatewayProcess, gateway_process
from fixtures.keeping import Keeping, keeping_on
from fixtures.s3 import S3Bucket

PATIENCE = 60
LATER = timedelta(hours=3)
SEVERAL_PARTS = LINE * 200_000


@dataclass(frozen=True)
class Scene:
    """A process that is to be killed, its bucket and what lies between them, and a replica that remembers nothing."""

    gateway: GatewayProcess
    proxy: FaultProxy
    bucket: S3Bucket
    successor: Keeping

    def kill_at(self, operation: str, number: int) -> None:
        """Kill the process once it asks the storage for something for so many times, which isn't done then."""

        def kill() -> None:
            self.gateway.process.kill()
            self.gateway.process.wait(PATIENCE)
            raise ConnectionAbortedError

        def pass_or_kill() -> None:
            if number == 1:
                kill()
            self.kill_at(operation, number - 1)

        self.proxy.inject(operation, Before(pass_or_kill), times=1)

    def client(self) -> httpx.Client:
        headers, url = bearer(ALICE), self.gateway.url
        return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, verify=NO_CERTIFICATES)

    def upload(self, content: bytes = LINE) -> str:
        with self.client() as client:
            answer = client.post("/v1/files", content=upload_form(content), headers=FORM)
            return str(answer.raise_for_status().json()["id"])

    def left(self) -> list[str]:
        """Keys of everything in the storage, and `(unfinished)` for each upload that has not ended."""
        listed = self.bucket.client.list_objects_v2(Bucket=self.bucket.name).get("Contents", [])
        return [entry["Key"] for entry in listed] + ["(unfinished)" for _ in self.bucket.unfinished_uploads()]


@pytest.fixture
def scene(s3_bucket: S3Bucket, s3_proxy: FaultProxy, tmp_path: Path) -> Iterator[Scene]:
    storage = {"endpointURL": s3_proxy.endpoint_url}
    with (
        gateway_process(tmp_path, s3_bucket, storage=storage) as process,
        keeping_on(s3_bucket, tmp_path) as successor,
    ):
        yield Scene(process, s3_proxy, s3_bucket, successor)


@pytest.mark.parametrize(
    ("content", "operation", "number", "left"),
    [
        (LINE, "PutObject", 1, 0),
        (LINE, "PutObject", 2, 1),
        (SEVERAL_PARTS, "UploadPart", 2, 1),
        (SEVERAL_PARTS, "CompleteMultipartUpload", 1, 1),
        (SEVERAL_PARTS, "PutObject", 1, 1),
    ],
    ids=["before its bytes", "before its record", "between parts", "before its end", "of parts, before its record"],
)
def test_nothing_is_left_of_an_upload_though_it_is_its_tenants_first(
    scene: Scene, content: bytes, operation: str, number: int, left: int
) -> None:
    scene.kill_at(operation, number)
    with pytest.raises(httpx.TransportError):
        scene.upload(content)
    assert len(scene.left()) == left
    scene.successor.round_after(LATER)
    assert scene.left() == []


@pytest.mark.parametrize(
    ("operation", "number", "stays"),
    [("PutObject", 1, True), ("DeleteObjects", 1, False), ("DeleteObjects", 2, False)],
    ids=["before anything is done", "before its bytes go", "before its record goes"],
)
def test_of_a_deletion_is_left_a_whole_file_or_nothing(scene: Scene, operation: str, number: int, stays: bool) -> None:
    file_id = scene.upload()
    before = scene.left()
    scene.kill_at(operation, number)
    with scene.client() as client, pytest.raises(httpx.TransportError):
        client.delete(f"/v1/files/{file_id}")
    assert scene.left()
    scene.successor.round()
    assert scene.left() == (before if stays else [])


def test_an_upload_whose_client_has_gone_before_the_answer_is_a_file_like_any_other(scene: Scene) -> None:
    sending = RawUpload(scene.gateway.url, length=len(upload_form()))
    before_the_record = Before(lambda: scene.proxy.inject("PutObject", Before(sending.close), times=1))
    scene.proxy.inject("PutObject", before_the_record, times=1)
    sending.send(upload_form())
    with scene.client() as client:

        def listed() -> list[dict[str, str]]:
            found: list[dict[str, str]] = client.get("/v1/files").raise_for_status().json()["data"]
            assert found
            return found

        [file] = eventually(listed)
        assert client.get(f"/v1/files/{file['id']}/content").content == LINE
