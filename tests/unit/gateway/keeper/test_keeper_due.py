"""Which records a round reads, and which it looks after."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from batchwright.gateway.keeper.due import ALWAYS, Schedule, batch_is_due, file_is_due
from batchwright.gateway.records.batch_record import BatchRecord, BatchState, Ending, Times
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import Entry, Stored

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def file(**changes: object) -> FileRecord:
    fields = {"id": "file-1", "namespace": "team-a", "key": "file-1", "bytes": 1, "created_at": NOON}
    return FileRecord(**{**fields, "filename": "in.jsonl", "purpose": "batch", **changes})  # type: ignore[arg-type]


def batch(ending: Ending | None) -> BatchRecord:
    return BatchRecord("batch_1", "team-a", "alice", "openai", NOON, NOON + 24 * HOUR, "24h", None, {}, ending=ending)


def ended(**times: datetime) -> Ending:
    return Ending(BatchState("completed", times=Times(**times)))


@pytest.mark.parametrize("moment", [None, NOON])
def test_a_file_is_due_when_it_expires(moment: datetime | None) -> None:
    assert file_is_due(file(expires_at=moment)) == moment


@pytest.mark.parametrize(
    ("ending", "keep", "due"),
    [
        (None, None, ALWAYS),
        (None, HOUR, ALWAYS),
        (ended(completed_at=NOON), None, None),
        (ended(completed_at=NOON), HOUR, NOON + HOUR),
        (ended(cancelling_at=NOON, cancelled_at=NOON + HOUR), HOUR, NOON + 2 * HOUR),
        (ended(), HOUR, NOON + HOUR),
    ],
    ids=["live", "live, though batches are forgotten", "kept for ever", "completed", "cancelled", "without a time"],
)
def test_a_batch_is_due_until_it_has_ended_and_when_it_was_kept_long_enough(
    ending: Ending | None, keep: timedelta | None, due: datetime | None
) -> None:
    assert batch_is_due(batch(ending), keep) == due


class Records:
    """File records as the store has them, and how often each was read."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored[FileRecord]] = {}
        self.reads: list[str] = []
        self.schedule = Schedule(self.read, file_is_due)

    def put(self, identity: str, expires_at: datetime | None, etag: str = "1") -> None:
        self.stored[identity] = Stored(file(id=identity, expires_at=expires_at), etag)

    def read(self, namespace: str, identity: str) -> Stored[FileRecord] | None:
        self.reads.append(identity)
        return self.stored.get(identity)

    def due(self, now: datetime) -> list[str]:
        entries = [Entry("team-a", identity, stored.etag) for identity, stored in self.stored.items()]
        return [stored.record.id for stored in self.schedule.due(entries, now)]


@pytest.fixture
def records() -> Records:
    return Records()


def test_only_what_is_due_is_given(records: Records) -> None:
    for identity, moment in {"past": NOON - HOUR, "now": NOON, "later": NOON + HOUR, "never": None}.items():
        records.put(identity, moment)
    assert records.due(NOON) == ["past", "now"]


def test_a_record_whose_time_has_not_come_is_read_once(records: Records) -> None:
    records.put("later", NOON + HOUR)
    assert [records.due(NOON), records.due(NOON), records.reads] == [[], [], ["later"]]


def test_one_that_stays_due_is_read_in_each_round(records: Records) -> None:
    records.put("past", NOON)
    assert [records.due(NOON), records.due(NOON), records.reads] == [["past"], ["past"], ["past", "past"]]


def test_a_changed_record_is_read_again(records: Records) -> None:
    records.put("changed", None)
    records.due(NOON)
    records.put("changed", NOON, etag="2")
    assert records.due(NOON) == ["changed"]


def test_what_is_gone_is_forgotten(records: Records) -> None:
    records.put("gone", NOON + HOUR)
    records.due(NOON)
    del records.stored["gone"]
    assert records.due(NOON + HOUR) == []
    records.put("gone", NOON + HOUR)
    assert records.due(NOON + HOUR) == ["gone"]


def test_a_record_that_is_deleted_between_listing_and_reading_is_passed_over() -> None:
    schedule = Schedule(lambda _namespace, _identity: None, file_is_due)
    assert list(schedule.due([Entry("team-a", "file-1", "1")], NOON)) == []


@pytest.mark.parametrize("failure", [msgspec.DecodeError("truncated"), OverflowError("date value out of range")])
def test_a_record_that_cant_be_read_keeps_no_other_one_from_its_turn(records: Records, failure: Exception) -> None:
    def read(namespace: str, identity: str) -> Stored[FileRecord] | None:
        if identity == "damaged":
            raise failure
        return records.read(namespace, identity)

    schedule = Schedule(read, file_is_due)
    records.put("past", NOON)
    entries = [Entry("team-a", identity, "1") for identity in ("damaged", "past")]
    assert [stored.record.id for stored in schedule.due(entries, NOON)] == ["past"]


def test_records_are_as_they_were_written() -> None:
    record = batch(ended(completed_at=NOON))
    assert msgspec.json.decode(msgspec.json.encode(record), type=BatchRecord) == record
