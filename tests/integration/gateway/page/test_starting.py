"""What becomes of an upload whose batch can't be made: nothing is left of it, unless there is a batch after all."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from batchwright.gateway.page.starting import retry_failed
from batchwright.storage.errors import StorageUnavailable
from fixtures import fault_proxy
from fixtures.fault_proxy import Before, FaultProxy, LoseAnswer
from fixtures.gateway import ALICE, running_gateway
from fixtures.kubernetes_http import Answer, HttpApi
from fixtures.page_client import OWN, signed_in, upload
from fixtures.page_world import PageWorld, ended, running
from fixtures.s3 import S3Bucket

JSON = "application/json"


@pytest.fixture
def on_s3(tmp_path: Path, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> Iterator[tuple[PageWorld, httpx.Client]]:
    storage = {"endpointURL": s3_proxy.endpoint_url, "addressingStyle": "path"}
    keys = s3_bucket.server.root.credentials_dir
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, f"s3://{s3_bucket.name}/gw/", credentials=keys, storage=storage)
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            yield world, client


def files_of(world: PageWorld) -> list[str]:
    return [stored.record.filename for stored in world.gateway.files.list("team-a")]


def test_an_api_server_that_is_away_leaves_no_upload(tmp_path: Path) -> None:
    """It is asked how many batches are active, before there is a record."""
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, limits={"tenant": {"activeBatches": 1}})
        world.batch("first.jsonl", status=running(10, 5))
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            api.fail("GET", "/batchjobs", Answer(503, "ServiceUnavailable"), times=100)
            answer = upload(client, accept=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert files_of(world) == ["first.jsonl"]
    folder = world.gateway.tenant("team-a")
    assert [info.key.rpartition("/")[2] for info in folder.store.list(folder.prefix)] == [
        stored.record.key for stored in world.gateway.files.list("team-a")
    ]


def test_an_api_server_that_is_away_leaves_no_copy_of_the_lines_to_retry(tmp_path: Path) -> None:
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api, limits={"tenant": {"activeBatches": 1}})
        batch = world.batch("a.jsonl", ago=120)
        world.publish(batch, results=3, errors=2)
        world.set(batch, ended("completed", 5, 3, 2))
        world.state(batch)
        world.batch("b.jsonl", status=running(10, 5))
        with running_gateway(world.gateway) as url, signed_in(url) as client:
            before = files_of(world)
            api.fail("GET", "/batchjobs", Answer(503, "ServiceUnavailable"), times=100)
            assert client.post(f"/ui/batches/{batch.id}/retry", headers=OWN).status_code == 503
    assert files_of(world) == before


@dataclass
class Unsure:
    """Records of files that are written though the storage says they may not be."""

    files: Any

    def create(self, *arguments: Any) -> None:
        self.files.create(*arguments)
        raise StorageUnavailable("PutObject", "s3://b/k")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)


def test_a_copy_of_the_lines_to_retry_whose_record_may_be_written_leaves_neither(world: PageWorld) -> None:
    batch = world.batch("a.jsonl", ago=120)
    world.publish(batch, results=3, errors=2)
    world.set(batch, ended("completed", 5, 3, 2))
    world.state(batch)
    stored = world.gateway.batches.get("team-a", batch.id)
    assert stored is not None
    folder, before = world.gateway.tenant("team-a"), files_of(world)
    keys = [info.key for info in folder.store.list(folder.prefix)]
    files: Any = Unsure(world.gateway.files)

    with pytest.raises(StorageUnavailable):
        retry_failed(replace(world.gateway, files=files), ALICE, stored)

    assert files_of(world) == before
    assert [info.key for info in folder.store.list(folder.prefix)] == keys


def test_a_storage_that_refuses_the_batch_leaves_no_upload(
    on_s3: tuple[PageWorld, httpx.Client], s3_bucket: S3Bucket, s3_proxy: FaultProxy
) -> None:
    _, client = on_s3
    after_the_file_and_its_record(s3_proxy)
    s3_proxy.inject("PutObject", fault_proxy.Answer(403, "AccessDenied"), times=1)
    answer = upload(client, accept=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "storage_error")
    assert s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name).get("Contents", []) == []
    assert upload(client).status_code == 303


def test_an_upload_that_a_batch_reads_after_all_stays(
    on_s3: tuple[PageWorld, httpx.Client], s3_proxy: FaultProxy
) -> None:
    """The record was written; of that no answer came, and it couldn't be looked at in that moment."""
    world, client = on_s3
    after_the_file_and_its_record(s3_proxy)
    s3_proxy.inject("PutObject", LoseAnswer(), times=100)
    s3_proxy.inject("GetObject", Before(lambda: None), times=1)  # the file's record, before there is a batch
    s3_proxy.inject("GetObject", fault_proxy.Answer(403, "AccessDenied"), times=1)
    assert upload(client, accept=JSON).status_code == 500
    (batch,) = (stored.record for stored in world.gateway.batches.list("team-a"))
    assert [stored.record.id for stored in world.gateway.files.list("team-a")] == [batch.input_file_id]


def after_the_file_and_its_record(proxy: FaultProxy) -> None:
    """The next faults of PutObject come when the batch's record is written."""
    proxy.inject("PutObject", Before(lambda: None), times=2)
