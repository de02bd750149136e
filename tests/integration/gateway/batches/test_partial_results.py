"""`GET /v1/batches/{id}/results` on real sockets: what is finished by now, and the rest when it is."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from batchwright.api import names
from batchwright.batchfile.layout import OutputLayout
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import RESULTS, ShardFile, ShardRecord, Totals
from batchwright.gateway import ids
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.storage.errors import StorageUnavailable
from fixtures.gateway import ADMIN, ALICE, BOB, bearer, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.s3 import S3Bucket

NAMESPACE = str(ALICE.namespace)
FINGERPRINT = "0123456789abcdef"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Running:
    """A batch whose workers are played by the test."""

    def __init__(self, gateway: Gateway, api: HttpApi, url: str) -> None:
        now = gateway.clock()
        self.gateway, self.api, self.url = gateway, api, url
        spec = {"input": {"uri": "s3://b/in"}, "output": {"uri": "s3://b/out/"}}
        end = now + timedelta(days=1)
        record = BatchRecord(ids.new_batch_id(now), NAMESPACE, "alice", "openai", now, end, "24h", None, spec)
        self.batch = make_batch(gateway, record)
        self.name = ids.batchjob_name(self.batch.id)
        self.folder = gateway.tenant(NAMESPACE)
        self.layout = OutputLayout(self.folder.key(f"{self.name}/")).work(FINGERPRINT)
        self.committed: dict[int, bytes] = {}

    def phase(self, phase: str, **status: Any) -> None:
        path = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/batchjobs/{self.name}"
        self.api.change(path, status={"phase": phase, "fingerprint": FINGERPRINT, **status})

    def commit(self, shard: int, *custom_ids: str) -> None:
        data = b"".join(b'{"custom_id": "%s", "error": null}\n' % one.encode() for one in custom_ids)
        info = self.folder.store.write(self.layout.shard_file(shard, "a1", RESULTS), data)
        file = ShardFile(info.key, len(data), len(custom_ids))
        record = ShardRecord(shard, 1, 0, "a1", len(custom_ids), Totals(), NOON, NOON, results=file)
        self.folder.store.write(self.layout.record(shard), encode_record(record))
        self.committed[shard] = data

    def publish(self) -> None:
        whole = b"".join(self.committed[shard] for shard in sorted(self.committed))
        self.folder.store.write(self.folder.key(f"{self.name}/results.jsonl"), whole)
        assert not self.folder.store.delete(info.key for info in self.folder.store.list(self.layout.shard_files))

    def get(self, who: Any = ALICE, **query: Any) -> httpx.Response:
        path = f"{self.url}/v1/batches/{self.batch.id}/results"
        return httpx.get(path, params=query, headers=bearer(who), timeout=30)

    def page(self, **query: Any) -> tuple[list[str], dict[str, Any]]:
        answer = self.get(**query)
        assert answer.status_code == 200, answer.text
        return [line["custom_id"] for line in answer.json()["data"]], answer.json()


@pytest.fixture
def running(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[Running]:
    with HttpApi() as api:
        gateway = gateway_on(
            f"s3://{s3_bucket.name}/gateway/",
            api,
            tmp_path,
            credentials=s3_bucket.server.root.credentials_dir,
            storage={"endpointURL": s3_bucket.server.endpoint_url},
        )
        with running_gateway(gateway) as url:
            yield Running(gateway, api, url)


def test_lines_come_as_their_shards_are_committed_and_the_rest_when_it_is_published(running: Running) -> None:
    assert running.page()[0] == []
    running.phase("in_progress")
    running.commit(1, "c", "d")
    first, page = running.page()
    running.commit(0, "a", "b")
    running.commit(2, "e")
    second, page = running.page(after=page["last_id"], limit=1)
    assert (first, second, page["has_more"], page["ended"]) == (["c", "d"], ["a"], True, False)
    running.publish()
    moment = NOON.strftime("%Y-%m-%dT%H:%M:%SZ")
    complete = {"type": "Complete", "status": "True", "reason": "Completed", "message": "", "observedGeneration": 1}
    running.phase("completed", completedAt=moment, conditions=[{**complete, "lastTransitionTime": moment}])
    third, page = running.page(after=page["last_id"])
    assert (third, page["has_more"], page["ended"]) == (["b", "e"], False, True)
    assert running.page(after=page["last_id"])[0] == []


def test_lines_stand_as_they_were_written(running: Running) -> None:
    running.phase("in_progress")
    running.commit(0, "a")
    assert json.dumps({"custom_id": "a", "error": None}) in running.get().text


def test_a_line_of_any_length_goes_out_as_it_is_read(running: Running) -> None:
    """How much memory that takes: tests/unit/gateway/partial_results."""
    running.phase("in_progress")
    long = "x" * (70 << 20)
    running.commit(0, "a", long, "b")
    first, page = running.page()
    assert (first, page["has_more"]) == (["a", long], True)
    second, page = running.page(after=page["last_id"])
    assert (second, page["has_more"]) == (["b"], False)


def test_an_answer_that_the_storage_breaks_off_within_a_line_can_be_asked_for_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.phase("in_progress")
    running.commit(0, "a", "x" * (1 << 20))
    whole = running.folder.store.stream
    with monkeypatch.context() as broken:
        broken.setattr(type(running.folder.store), "stream", _cut(whole))
        with pytest.raises(httpx.RemoteProtocolError):
            running.get()
    assert len(running.page()[0]) == 2


def _cut(whole: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
    """A store whose reads of shard files break off in the middle."""

    def stream(_: object, key: str, **arguments: Any) -> Iterator[bytes]:
        if not key.endswith(f"-{RESULTS}.jsonl"):
            return whole(key, **arguments)
        return _broken_off(next(whole(key, **arguments)))

    return stream


def _broken_off(first: bytes) -> Iterator[bytes]:
    yield first
    raise StorageUnavailable("GetObject", "s3://b/k")


def test_a_merge_that_publishes_between_two_pages_is_not_noticed(running: Running) -> None:
    running.phase("finalizing")
    running.commit(0, "a")
    running.publish()
    assert running.page()[0] == ["a"]


def test_results_that_were_deleted_are_said_to_be(running: Running) -> None:
    running.phase("finalizing")
    running.commit(0, "a")
    running.publish()
    running.folder.store.delete([running.folder.key(f"{running.name}/results.jsonl")])
    assert (running.get().status_code, running.get().json()["error"]["code"]) == (404, "results_deleted")


@pytest.mark.parametrize("query", [{"after": "batch_1"}, {"limit": 0}, {"limit": "x"}, {"limit": 10_001}])
def test_what_can_not_be_asked_for_is_refused(running: Running, query: dict[str, Any]) -> None:
    running.phase("in_progress")
    assert running.get(**query).status_code == 400


def test_another_tenant_learns_nothing_and_an_administrator_everything(running: Running) -> None:
    running.phase("in_progress")
    running.commit(0, "a")
    assert running.get(BOB).status_code == 404
    assert [line["custom_id"] for line in running.get(ADMIN).json()["data"]] == ["a"]
