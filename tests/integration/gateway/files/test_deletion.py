"""DELETE /v1/files/{id}: the record and the bytes, never of what a live batch reads."""

from typing import Any

import pytest

from batchwright.api import names
from batchwright.gateway.files.deletion import delete_file
from batchwright.gateway.ids import batchjob_name, new_batch_id, new_file_id
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import Stored
from fixtures.files_service import LINE, FilesService
from fixtures.gateway import ALICE

NAMESPACE = str(ALICE.namespace)


@pytest.fixture
def file_id(service: FilesService) -> str:
    return service.openai().files.create(file=("in.jsonl", LINE), purpose="batch").id


def batchjob(service: FilesService, file_id: str, phase: str | None, namespace: str = NAMESPACE) -> str:
    """A BatchJob of the gateway that reads a file; gives its batch."""
    batch = new_batch_id(service.gateway.clock())
    annotations = {names.ANNOTATION_BATCH_ID: batch, names.ANNOTATION_INPUT_FILE_ID: file_id}
    metadata: dict[str, Any] = {
        "name": batchjob_name(batch),
        "namespace": namespace,
        "labels": {names.LABEL_GATEWAY: "openai"},
        "annotations": annotations,
    }
    path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{metadata['name']}"
    service.api.put(path, {"metadata": metadata, **({"status": {"phase": phase}} if phase else {})})
    return batch


def test_a_deleted_file_is_gone_with_its_bytes(service: FilesService, file_id: str) -> None:
    client = service.openai()
    deleted = client.files.delete(file_id)
    assert (deleted.id, deleted.object, deleted.deleted) == (file_id, "file", True)
    assert service.stored() == []
    with service.http() as http:
        assert http.get(f"/v1/files/{file_id}").status_code == 404
        assert http.delete(f"/v1/files/{file_id}").status_code == 404


@pytest.mark.parametrize("phase", [None, "pending", "validating", "in_progress", "finalizing", "cancelling"])
def test_what_a_live_batch_reads_stays_and_the_batch_is_named(
    service: FilesService, file_id: str, phase: str | None
) -> None:
    batch = batchjob(service, file_id, phase)
    with service.http() as http:
        answer = http.delete(f"/v1/files/{file_id}")
    assert (answer.status_code, answer.headers["x-should-retry"]) == (409, "false")
    assert batch in answer.json()["error"]["message"]
    assert service.openai().files.content(file_id).content == LINE


def test_what_a_live_batch_reads_by_its_uri_stays_too(service: FilesService, file_id: str) -> None:
    batch = new_batch_id(service.gateway.clock())
    name = batchjob_name(batch)
    service.api.put(
        f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/{names.PLURAL}/{name}",
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {names.LABEL_GATEWAY: "paths"},
                "annotations": {names.ANNOTATION_BATCH_ID: batch},
            },
            "spec": {"input": {"uri": f"{service.gateway.tenant(NAMESPACE).uri}{file_id}"}},
        },
    )
    with service.http() as http:
        answer = http.delete(f"/v1/files/{file_id}")
    assert answer.status_code == 409
    assert batch in answer.json()["error"]["message"]
    assert service.openai().files.content(file_id).content == LINE


@pytest.mark.parametrize("phase", ["completed", "failed", "cancelled", "expired"])
def test_what_ended_batches_have_read_can_be_deleted(service: FilesService, file_id: str, phase: str) -> None:
    batchjob(service, file_id, phase)
    batchjob(service, new_file_id(service.gateway.clock()), "in_progress")
    batchjob(service, file_id, "in_progress", namespace="team-b")
    assert service.openai().files.delete(file_id).deleted


@pytest.mark.parametrize(
    ("deleted", "left"),
    [("results.jsonl", ["errors.jsonl", "retry.jsonl"]), ("errors.jsonl", ["results.jsonl"])],
    ids=["results", "errors, and with them the lines to send again"],
)
def test_what_a_batch_published_can_be_deleted(service: FilesService, deleted: str, left: list[str]) -> None:
    now, folder = service.gateway.clock(), service.gateway.tenant(NAMESPACE)
    output, published = new_file_id(now), batchjob_name(new_batch_id(now))
    for name in ("results.jsonl", "errors.jsonl", "retry.jsonl"):
        folder.store.write(folder.key(f"{published}/{name}"), LINE)
    record = FileRecord(output, NAMESPACE, f"{published}/{deleted}", len(LINE), now, "out.jsonl", "batch_output")
    service.gateway.files.create(NAMESPACE, output, record)
    client = service.openai()
    assert client.files.content(output).content == LINE
    assert client.files.delete(output).deleted
    assert service.stored() == [f"{NAMESPACE}/{published}/{name}" for name in left]


@pytest.mark.parametrize(
    "key", ["../team-b/x", "", "/etc/passwd", "in.jsonl", f"batch-{'0' * 32}/../x.jsonl", f"batch-{'0' * 32}/"]
)
def test_only_uploads_and_published_files_are_ever_deleted(volume_service: FilesService, key: str) -> None:
    now = volume_service.gateway.clock()
    record = FileRecord(new_file_id(now), NAMESPACE, key, 1, now, "x", "batch_output")
    stored: Stored[FileRecord] = volume_service.gateway.files.create(NAMESPACE, record.id, record)
    with pytest.raises(ValueError, match="no key"):
        delete_file(volume_service.gateway, stored)
