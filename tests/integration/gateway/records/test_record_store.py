"""Records in real object storage: what is exclusive, what is in which order, and how often something is read."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest

from batchwright.gateway import ids
from batchwright.gateway.records.batch_record import BatchRecord, BatchState, Ending
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import Changed, Exists, RecordStore
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PREFIX = "gateway/.gateway/files/"


class Counted:
    """A store that notes which keys are fetched."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.fetched: list[str] = []

    def fetch(self, key: str, *arguments: Any, **options: Any) -> Any:
        self.fetched.append(key)
        return self._store.fetch(key, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest) -> Counted:
    if request.param == "s3":
        return Counted(request.getfixturevalue("s3_bucket").store())
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return Counted(FileStore(tmp_path / "volume"))


@pytest.fixture
def files(store: Counted) -> RecordStore[FileRecord]:
    return open_files(store)


def open_files(store: Counted) -> RecordStore[FileRecord]:
    """The records as another replica sees them."""
    opened: ObjectStore = store  # type: ignore[assignment]
    return RecordStore(opened, PREFIX, FileRecord)


def file_of(number: int = 0, namespace: str = "team-a", **changes: Any) -> FileRecord:
    """A file made so many seconds after the beginning."""
    made = NOW + timedelta(seconds=number)
    identity = ids.new_file_id(made, bytes([number] * 10))
    record = FileRecord(identity, namespace, identity, 3, made, "in.jsonl", "batch")
    return msgspec.structs.replace(record, **changes)


def filled(files: RecordStore[FileRecord], *records: FileRecord) -> list[str]:
    """Their ids, once they are stored."""
    for record in records:
        files.create(record.namespace, record.id, record)
    return [record.id for record in records]


def listed(found: Iterator[Any]) -> list[str]:
    return [stored.record.id for stored in found]


def test_a_record_is_read_as_it_was_written(files: RecordStore[FileRecord]) -> None:
    record = file_of(filename="ä \u2028 /../x", expires_at=NOW, lines=3, model="org/m")
    created = files.create("team-a", record.id, record)
    assert files.get("team-a", record.id) == created
    assert created.record == record


def test_a_batch_keeps_its_spec_and_its_ending(store: Counted) -> None:
    opened: ObjectStore = store  # type: ignore[assignment]
    batches = RecordStore(opened, "gateway/.gateway/batches/", BatchRecord)
    identity = ids.new_batch_id(NOW)
    spec = {"input": {"uri": "s3://b/k"}, "requests": {"timeout": "3m"}, "sharding": {"linesPerShard": 1000}}
    record = BatchRecord(identity, "team-a", "alice", "openai", NOW, NOW, "24h", "/v1/completions", spec)
    ended = msgspec.structs.replace(record, ending=Ending(BatchState("failed", "no"), error_file_id="file-1"))
    before = batches.create("team-a", identity, record)
    batches.replace("team-a", identity, before, ended)
    found = batches.get("team-a", identity)
    assert found is not None
    assert found.record == ended


def test_a_record_of_another_tenant_is_not_there(files: RecordStore[FileRecord]) -> None:
    (identity,) = filled(files, file_of())
    assert files.get("team-b", identity) is None
    assert listed(files.list("team-b")) == []


def test_a_tenant_whose_name_begins_alike_is_another_one(files: RecordStore[FileRecord]) -> None:
    filled(files, file_of(namespace="team-ab"))
    assert listed(files.list("team-a")) == []


def test_an_id_is_taken_once(files: RecordStore[FileRecord]) -> None:
    record = file_of()
    files.create("team-a", record.id, record)
    with pytest.raises(Exists):
        files.create("team-a", record.id, msgspec.structs.replace(record, filename="other"))


def test_who_writes_the_same_again_has_written_it(files: RecordStore[FileRecord]) -> None:
    record = file_of()
    first = files.create("team-a", record.id, record)
    assert files.create("team-a", record.id, record) == first


def test_of_those_who_create_at_once_one_wins(files: RecordStore[FileRecord]) -> None:
    record, writers = file_of(), 8
    begun = Barrier(writers)

    def create(number: int) -> bool:
        begun.wait(30)
        try:
            files.create("team-a", record.id, msgspec.structs.replace(record, user=f"user-{number}"))
        except Exists:
            return False
        return True

    with ThreadPoolExecutor(writers) as threads:
        assert sum(threads.map(create, range(writers))) == 1


def test_a_version_that_was_replaced_cannot_be_changed(files: RecordStore[FileRecord]) -> None:
    record = file_of()
    before = files.create("team-a", record.id, record)
    after = files.replace("team-a", record.id, before, msgspec.structs.replace(record, user="first"))
    with pytest.raises(Changed):
        files.replace("team-a", record.id, before, msgspec.structs.replace(record, user="second"))
    assert files.get("team-a", record.id) == after


def test_who_makes_the_same_change_again_has_made_it(files: RecordStore[FileRecord]) -> None:
    record = file_of()
    before, changed = files.create("team-a", record.id, record), msgspec.structs.replace(record, user="bob")
    assert files.replace("team-a", record.id, before, changed) == files.replace("team-a", record.id, before, changed)


def test_one_wins_of_those_who_change_a_version_at_once(files: RecordStore[FileRecord]) -> None:
    record, writers = file_of(), 8
    before, begun = files.create("team-a", record.id, record), Barrier(writers)

    def change(number: int) -> str | None:
        begun.wait(30)
        try:
            user = f"user-{number}"
            files.replace("team-a", record.id, before, msgspec.structs.replace(record, user=user))
        except Changed:
            return None
        return user

    with ThreadPoolExecutor(writers) as threads:
        winners = [user for user in threads.map(change, range(writers)) if user]
    found = files.get("team-a", record.id)
    assert found is not None
    assert winners == [found.record.user]


def test_what_was_deleted_cannot_be_changed(files: RecordStore[FileRecord]) -> None:
    record = file_of()
    before = files.create("team-a", record.id, record)
    files.delete("team-a", record.id)
    with pytest.raises(Changed):
        files.replace("team-a", record.id, before, msgspec.structs.replace(record, user="bob"))
    assert files.get("team-a", record.id) is None
    files.delete("team-a", record.id)


def test_a_list_has_the_newest_first_and_goes_on_after_an_id(files: RecordStore[FileRecord]) -> None:
    oldest_first = filled(files, *(file_of(number) for number in range(5)))
    newest_first = oldest_first[::-1]
    assert listed(files.list("team-a")) == newest_first
    assert listed(files.list("team-a", after=newest_first[1])) == newest_first[2:]
    assert listed(files.list("team-a", after=newest_first[-1])) == []
    assert listed(files.list("team-a", oldest_first=True)) == oldest_first
    assert listed(files.list("team-a", after=oldest_first[1], oldest_first=True)) == oldest_first[2:]


def test_a_list_goes_on_after_an_id_that_is_gone(files: RecordStore[FileRecord]) -> None:
    newest_first = filled(files, *(file_of(number) for number in range(3)))[::-1]
    files.delete("team-a", newest_first[1])
    assert listed(files.list("team-a", after=newest_first[1])) == newest_first[2:]


def test_an_administrators_list_mixes_tenants_by_time(files: RecordStore[FileRecord]) -> None:
    oldest_first = filled(files, *(file_of(number, f"team-{'abc'[number % 3]}") for number in range(6)))
    newest_first = oldest_first[::-1]
    assert listed(files.list_all()) == newest_first
    assert listed(files.list_all(after=newest_first[2])) == newest_first[3:]
    assert listed(files.list_all(oldest_first=True, after=oldest_first[2])) == oldest_first[3:]


def test_an_administrator_finds_a_record_by_its_id_alone(files: RecordStore[FileRecord]) -> None:
    filled(files, file_of(0), file_of(1, "team-b"))
    found = files.find(file_of(1).id)
    assert found is not None
    assert found.record.namespace == "team-b"
    assert files.find(file_of(2).id) is None


def test_a_list_reads_a_record_that_has_not_changed_once(store: Counted, files: RecordStore[FileRecord]) -> None:
    filled(files, *(file_of(number) for number in range(20)))
    listed(files.list("team-a"))
    assert len(store.fetched) == 20
    listed(files.list("team-a"))
    assert len(store.fetched) == 20


def test_a_list_shows_what_another_replica_changed(store: Counted, files: RecordStore[FileRecord]) -> None:
    filled(files, file_of(0), file_of(1))
    listed(files.list("team-a"))
    other = open_files(store)
    before = other.get("team-a", file_of(0).id)
    assert before is not None
    other.replace("team-a", before.record.id, before, msgspec.structs.replace(before.record, user="bob"))
    other.delete("team-a", file_of(1).id)
    assert [stored.record.user for stored in files.list("team-a")] == ["bob"]


def test_a_list_is_read_as_far_as_it_is_asked_for(store: Counted, files: RecordStore[FileRecord]) -> None:
    filled(files, *(file_of(number) for number in range(60)))
    page = files.list("team-a")
    next(page)
    page.close()
    assert len(store.fetched) < 40


def test_entries_tell_what_there_is_without_reading_it(store: Counted, files: RecordStore[FileRecord]) -> None:
    filled(files, file_of(0), file_of(1, "team-b"))
    found = {(entry.namespace, entry.identity) for entry in files.entries()}
    assert found == {("team-a", file_of(0).id), ("team-b", file_of(1).id)}
    assert not store.fetched
