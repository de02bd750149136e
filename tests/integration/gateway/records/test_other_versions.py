"""Records that this version of the gateway didn't write: damaged ones, older ones, and those of a newer version that
runs beside it while one replaces the other.
"""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from batchwright.gateway import ids
from batchwright.gateway.keeper.due import ALWAYS, Schedule
from batchwright.gateway.records.batch_record import BatchRecord, BatchState, Ending
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.idempotency_record import IdempotencyRecord
from batchwright.gateway.records.record_store import RecordStore, Unreadable
from batchwright.storage.file import FileStore
from fixtures.batch_records import record
from fixtures.batch_world import BatchWorld, batch_world
from fixtures.kubernetes_http import Answer

Raw = dict[str, Any]
RECORDED = Path(__file__).parents[3] / "recorded" / "1" / "gateway"
PREFIX = "gateway/.gateway/batches/"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"<html>",
    "cut": msgspec.json.encode(record())[:-20],
    "no UTF-8": b'{"id": "\xff"}',
    "another kind": b'{"record": "file", "id": "x"}',
    "a field is missing": b'{"record": "batch", "id": "x"}',
    "a field of another type": msgspec.json.encode(record()).replace(b'"alice"', b"7"),
    "a face that only a newer version knows": msgspec.json.encode(record()).replace(b'"openai"', b'"mail"'),
    "too deep": b'{"record": "batch", "spec": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
}
damaged = pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


@pytest.fixture
def batches(store: FileStore) -> RecordStore[BatchRecord]:
    return RecordStore(store, PREFIX, BatchRecord)


def batch_of(number: int) -> BatchRecord:
    return record(id=ids.new_batch_id(NOW, bytes([number] * 10)), created_at=NOW)


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.message for entry in caplog.records if entry.levelno == logging.ERROR]


class TestDamaged:
    @damaged
    def test_a_list_leaves_it_out_and_logs_its_name_once(
        self, store: FileStore, batches: RecordStore[BatchRecord], data: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        whole, broken = batch_of(1), batch_of(2)
        batches.create("team-a", whole.id, whole)
        store.write(f"{PREFIX}team-a/{broken.id}.json", data)

        for listed in (batches.list("team-a"), batches.list("team-a"), batches.list_all(oldest_first=True)):
            assert [stored.record for stored in listed] == [whole]
        [told] = errors_in(caplog)
        assert store.uri(f"{PREFIX}team-a/{broken.id}.json") in told

    @damaged
    def test_by_its_id_it_is_an_error_that_names_it(
        self, store: FileStore, batches: RecordStore[BatchRecord], data: bytes
    ) -> None:
        broken = batch_of(2)
        store.write(f"{PREFIX}team-a/{broken.id}.json", data)

        for read in (lambda: batches.get("team-a", broken.id), lambda: batches.find(broken.id)):
            with pytest.raises(Unreadable) as error:
                read()
            assert error.value.identity == broken.id

    @damaged
    def test_the_keeper_goes_on_with_the_others(
        self, store: FileStore, batches: RecordStore[BatchRecord], data: bytes
    ) -> None:
        first, broken, last = (batch_of(number) for number in range(3))
        for whole in (first, last):
            batches.create("team-a", whole.id, whole)
        store.write(f"{PREFIX}team-a/{broken.id}.json", data)

        due = Schedule(batches.get, lambda _: ALWAYS).due(batches.entries(), NOW)
        assert [stored.record.id for stored in due] == sorted([first.id, last.id])

    def test_the_keeper_goes_on_where_one_is_damaged_at_the_moment(
        self, store: FileStore, batches: RecordStore[BatchRecord]
    ) -> None:
        first, second = batch_of(1), batch_of(2)
        for whole in (first, second):
            batches.create("team-a", whole.id, whole)
        schedule = Schedule(batches.get, lambda _: ALWAYS)
        listed = list(batches.entries())
        assert len(list(schedule.due(listed, NOW))) == 2
        store.write(f"{PREFIX}team-a/{second.id}.json", b"")

        assert [stored.record.id for stored in schedule.due(listed, NOW)] == [first.id]

    def test_one_that_was_restored_is_listed_again(self, store: FileStore, batches: RecordStore[BatchRecord]) -> None:
        key = f"{PREFIX}team-a/{batch_of(1).id}.json"
        store.write(key, b"")
        assert list(batches.list("team-a")) == []

        store.write(key, msgspec.json.encode(batch_of(1)))
        assert [stored.record for stored in batches.list("team-a")] == [batch_of(1)]

    def test_an_object_that_is_no_record_is_passed_over(
        self, store: FileStore, batches: RecordStore[BatchRecord], caplog: pytest.LogCaptureFixture
    ) -> None:
        store.write(f"{PREFIX}team-a/.nfs0001", b"")

        assert list(batches.list("team-a")) == []
        assert errors_in(caplog) == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BatchWorld]:
    with batch_world(None, tmp_path) as started:
        yield started


def rewrite(world: BatchWorld, kind: str, identity: str, change: Callable[[bytes], bytes]) -> None:
    """Somebody else writes a record."""
    store, key = world.gateway.root, f"{world.gateway.root_prefix}{kind}/team-a/{identity}.json"
    store.write(key, change(store.read(key)))


def raw_record(world: BatchWorld, kind: str, identity: str) -> Raw:
    key = f"{world.gateway.root_prefix}{kind}/team-a/{identity}.json"
    found: Raw = json.loads(world.gateway.root.read(key))
    return found


class TestDamagedOverHttp:
    def test_of_batches(self, world: BatchWorld) -> None:
        whole, broken = world.create(), world.create()
        rewrite(world, "batches", broken, lambda data: data[:-1])

        listed = world.request("GET", "/v1/batches")
        assert [batch["id"] for batch in listed.json()["data"]] == [whole]
        answer = world.request("GET", f"/v1/batches/{broken}")
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "record_unreadable"
        assert broken in answer.json()["error"]["message"]
        assert world.create(), "others can be made"

    def test_of_files(self, world: BatchWorld) -> None:
        whole, broken = world.upload(), world.upload()
        rewrite(world, "files", broken, lambda data: data[:-1])

        listed = world.request("GET", "/v1/files")
        assert [file["id"] for file in listed.json()["data"]] == [whole]
        for path in (f"/v1/files/{broken}", f"/v1/files/{broken}/content"):
            answer = world.request("GET", path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "record_unreadable")
            assert broken in answer.json()["error"]["message"]

    def test_a_damaged_record_of_its_results_keeps_a_batch_from_its_end_and_no_other_from_the_list(
        self, world: BatchWorld
    ) -> None:
        ended, other = world.create(), world.create()
        world.finish(ended, results=b"{}\n", completedAt="2026-03-01T12:00:00Z")
        output = world.get(ended)["output_file_id"]
        rewrite(world, "files", output, lambda _: b"")
        rewrite(world, "batches", ended, lambda data: msgspec.json.encode(json.loads(data) | {"ending": None}))

        listed = world.request("GET", "/v1/batches").json()["data"]
        assert {batch["id"]: batch["status"] for batch in listed} == {ended: "finalizing", other: "validating"}


def newer(data: bytes) -> bytes:
    """The record as a newer version writes it."""
    found = json.loads(data)
    return json.dumps(found | {"priority": {"class": "low", "weight": 2}, "labels": ["a"], "version": 2}).encode()


class TestTwoVersionsAtOnce:
    def test_a_newer_batch_is_shown_cancelled_and_ended_and_keeps_what_is_unknown_here(self, world: BatchWorld) -> None:
        world.api.fail("POST", "/batchjobs", Answer(503, "ServiceUnavailable"))
        batch_id = world.create()
        rewrite(world, "batches", batch_id, newer)

        assert [batch["id"] for batch in world.request("GET", "/v1/batches").json()["data"]] == [batch_id]
        assert world.request("POST", f"/v1/batches/{batch_id}/cancel").json()["status"] == "cancelling"
        world.finish(batch_id, "cancelled")
        assert world.get(batch_id)["status"] == "cancelled"
        found = raw_record(world, "batches", batch_id)
        assert found["batchjob_uid"]
        assert found["cancelling_at"]
        assert found["ending"]["state"]["status"] == "cancelled"
        assert (found["priority"], found["labels"]) == ({"class": "low", "weight": 2}, ["a"])
        assert found["version"] == 2

    def test_a_newer_file_is_listed_and_read(self, world: BatchWorld) -> None:
        file_id = world.upload()
        rewrite(world, "files", file_id, newer)

        assert [file["id"] for file in world.request("GET", "/v1/files").json()["data"]] == [file_id]
        assert world.request("GET", f"/v1/files/{file_id}/content").status_code == 200
        assert world.get(world.create(file_id))["status"] == "validating"

    def test_what_is_unknown_within_a_field_is_passed_over(self, batches: RecordStore[BatchRecord]) -> None:
        ended = msgspec.structs.replace(batch_of(1), ending=Ending(BatchState("completed")))
        raw = msgspec.to_builtins(ended)
        raw["ending"]["state"]["energy"] = 12
        store: Any = batches._store
        store.write(f"{PREFIX}team-a/{ended.id}.json", msgspec.json.encode(raw))

        [listed] = batches.list("team-a")
        assert listed.record == ended

    def test_a_list_that_keeps_records_in_memory_keeps_what_is_unknown(
        self, store: FileStore, batches: RecordStore[BatchRecord]
    ) -> None:
        key = f"{PREFIX}team-a/{batch_of(1).id}.json"
        store.write(key, newer(msgspec.json.encode(batch_of(1))))
        list(batches.list("team-a"))
        [kept] = batches.list("team-a")
        batches.replace("team-a", kept.record.id, kept, msgspec.structs.replace(kept.record, batchjob_uid="u"))

        assert json.loads(store.read(key))["labels"] == ["a"]
        assert json.loads(store.read(key))["batchjob_uid"] == "u"


KINDS: dict[str, type[BatchRecord] | type[FileRecord] | type[IdempotencyRecord]] = {
    "batch": BatchRecord,
    "file": FileRecord,
    "idempotency": IdempotencyRecord,
}


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_what_the_first_version_wrote_is_read(name: str) -> None:
    data = (RECORDED / f"{name}.json").read_bytes()
    found = msgspec.json.decode(data, type=KINDS[name.partition("-")[0]])

    assert part_of(msgspec.json.decode(msgspec.json.encode(found)), json.loads(data)) == json.loads(data)


def part_of(found: Any, asked: Any) -> Any:
    """What is there of the fields that are asked for."""
    if not isinstance(asked, dict):
        return found
    return {name: part_of(found[name], value) for name, value in asked.items()}
