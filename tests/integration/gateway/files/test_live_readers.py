"""What a batch reads that has not ended can't be deleted, whatever has become of its BatchJob so far."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from batchwright.api import names
from batchwright.gateway import ids
from batchwright.gateway.records.batch_record import BatchState, Ending
from batchwright.gateway.records.file_record import FileRecord
from fixtures.batch_records import record
from fixtures.batch_world import BATCHJOBS, BatchWorld, batch_world, line
from fixtures.gateway import ALICE
from fixtures.kubernetes_http import Answer
from fixtures.s3 import S3Bucket

NAMESPACE = str(ALICE.namespace)
AWAY = Answer(503, "ServiceUnavailable")
DAYS = timedelta(days=1).total_seconds()
Make = Callable[[BatchWorld, str], str]


@pytest.fixture
def world(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[BatchWorld]:
    with batch_world(s3_bucket, tmp_path) as started:
        yield started


def by_id(world: BatchWorld, key: str) -> str:
    """A batch that names a file by its id; gives its own."""
    return world.create(key)


def by_path(world: BatchWorld, key: str) -> str:
    """A path-based batch, which names an object by its URI."""
    asked = {"model": "m", "input_file": f"{world.gateway.tenant(NAMESPACE).uri}{key}"}
    answer = world.request("POST", "/resource_server/local/vllm/v1/batches", json=asked)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["batch_id"])


FACES = pytest.mark.parametrize("make", [by_id, by_path])


def delete(world: BatchWorld, file_id: str) -> httpx.Response:
    return world.request("DELETE", f"/v1/files/{file_id}")


def assert_in_use(world: BatchWorld, file_id: str, batch_id: str) -> None:
    answer = delete(world, file_id)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "file_in_use")
    assert batch_id in answer.json()["error"]["message"]
    assert world.request("GET", f"/v1/files/{file_id}/content").content == line()


@FACES
def test_the_input_of_a_batch_whose_batchjob_is_not_created_yet(world: BatchWorld, make: Make) -> None:
    world.api.fail("POST", BATCHJOBS, AWAY, times=3)
    file_id = world.upload()
    batch_id = make(world, file_id)
    assert_in_use(world, file_id, batch_id)
    assert world.batchjobs() == []


@FACES
def test_the_input_of_a_batch_whose_record_is_lost(world: BatchWorld, make: Make) -> None:
    file_id = world.upload()
    batch_id = make(world, file_id)
    world.gateway.batches.delete(NAMESPACE, batch_id)
    assert_in_use(world, file_id, batch_id)


@FACES
def test_the_input_of_a_batch_that_has_outlived_its_window_by_days(world: BatchWorld, make: Make) -> None:
    file_id = world.upload()
    batch_id = make(world, file_id)
    world.pass_by(5 * DAYS)
    assert_in_use(world, file_id, batch_id)


def test_what_another_batch_published_and_one_by_path_reads(world: BatchWorld) -> None:
    key = f"{ids.batchjob_name(ids.new_batch_id(world.gateway.clock()))}/{names.RESULTS_OBJECT}"
    folder, now = world.gateway.tenant(NAMESPACE), world.gateway.clock()
    folder.store.write(folder.key(key), line())
    file = FileRecord(ids.new_file_id(now), NAMESPACE, key, len(line()), now, "out.jsonl", "batch_output")
    world.gateway.files.create(NAMESPACE, file.id, file)
    assert_in_use(world, file.id, by_path(world, key))


@FACES
def test_what_a_batch_has_read_that_has_ended_can_be_deleted_though_nobody_has_looked_at_it(
    world: BatchWorld, make: Make
) -> None:
    file_id = world.upload()
    world.phase(make(world, file_id), "completed")
    assert delete(world, file_id).status_code == 200


@FACES
def test_what_a_batch_has_read_whose_batchjob_was_deleted_can_be_deleted(world: BatchWorld, make: Make) -> None:
    file_id = world.upload()
    world.delete_batchjob(make(world, file_id))
    assert delete(world, file_id).status_code == 200


def test_a_batch_that_never_got_a_batchjob_holds_no_file(world: BatchWorld) -> None:
    file_id, now = world.upload(), world.gateway.clock()
    failed = record(
        id=ids.new_batch_id(now), created_at=now, input_file_id=file_id, ending=Ending(BatchState("failed"))
    )
    world.gateway.batches.create(NAMESPACE, failed.id, failed)
    assert delete(world, file_id).status_code == 200


def test_a_cluster_that_is_away_keeps_the_file(world: BatchWorld) -> None:
    file_id = world.upload()
    world.api.fail("GET", BATCHJOBS, AWAY, times=3)
    assert delete(world, file_id).status_code == 503
    assert world.request("GET", f"/v1/files/{file_id}/content").content == line()
