"""Segments and the commit of one shard, from several threads."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.origin_record import EarlierPart
from batchwright.batchfile.plan_record import RecordError, Shard, decode_record, encode_record
from batchwright.batchfile.result_line import failure_line, read_finished_line, result_line
from batchwright.batchfile.shard_record import ShardFile, ShardRecord, Totals
from batchwright.storage.errors import StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.server.verdicts import Answered, Failed

LAYOUT = WorkLayout("work/")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
GOOD = Answered(200, "r", b'{"n":1}', Reading(Usage(total_tokens=1), ("stop",)))


class SlowStore(FileStore):
    """A volume on which the first write waits until it may go on, and whose first answer may get lost."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.writing = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.lose_answer_to = ""

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        self.writing.set()
        self.may_go_on.wait(30)
        info = super().write(key, data, if_none_match=if_none_match, if_match=if_match)
        if key == self.lose_answer_to:
            self.lose_answer_to = ""
            raise StorageUnavailable("PutObject", key, "the answer got lost")
        return info


@pytest.fixture
def store(tmp_path: Path) -> SlowStore:
    (tmp_path / "volume").mkdir()
    return SlowStore(tmp_path / "volume")


def open_shard(
    store: FileStore, folder: Path, lines: int = 3, *, attempt: str = "mine", index: int = 0, exclusive: bool = True
) -> OpenShard:
    return OpenShard(
        number=0,
        shard=Shard(0, 1, 1, lines),
        fingerprint="f",
        store=store,
        layout=LAYOUT,
        identity=WorkerIdentity(1, index, 2, attempt),
        folder=folder / f"spool-{attempt}",
        exclusive=exclusive,
        clock=lambda: NOW,
    )


def deliver(shard: OpenShard, *positions: int, outcome: Answered | Failed = GOOD) -> None:
    for position in positions:
        shard.deliver(
            position=position, line_number=position + 1, custom_id=f"id-{position}", line=b"input", outcome=outcome
        )


def segment_ids(store: FileStore) -> list[str]:
    keys = [info.key for info in store.list(LAYOUT.segments)]
    return [read_finished_line(line).custom_id for key in keys for line in store.read(key).splitlines()]


def record_of(store: FileStore) -> ShardRecord:
    return decode_record(store.read(LAYOUT.record(0)), ShardRecord)


def test_it_is_complete_once_all_is_read_and_every_line_has_an_outcome(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path, lines=2)
    deliver(shard, 1)
    assert not shard.complete
    shard.end_of_input()
    assert not shard.complete
    deliver(shard, 0)
    assert shard.complete


def test_each_flush_writes_what_came_since_the_last_one(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path)
    shard.flush()
    assert segment_ids(store) == []
    deliver(shard, 2, 0)
    shard.flush()
    shard.flush()
    deliver(shard, 1)
    assert shard.unflushed
    shard.flush()
    assert not shard.unflushed
    assert [info.key for info in store.list(LAYOUT.segments)] == [LAYOUT.segment(0, "mine", n) for n in (0, 1)]
    assert segment_ids(store) == ["id-2", "id-0", "id-1"]


def test_a_flush_that_failed_is_made_up_for_by_the_next(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path)
    deliver(shard, 0)
    store.lose_answer_to = LAYOUT.segment(0, "mine", 0)
    with pytest.raises(StorageUnavailable):
        shard.flush()
    deliver(shard, 1)
    shard.flush()
    assert segment_ids(store) == ["id-0", "id-1"]


def test_a_flush_waits_for_one_that_was_given_up_and_still_runs(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path)
    deliver(shard, 0)
    store.may_go_on.clear()
    given_up = threading.Thread(target=shard.flush)
    given_up.start()
    assert store.writing.wait(30)
    deliver(shard, 1)  # the event loop doesn't wait for the store
    last = threading.Thread(target=shard.flush)
    last.start()
    store.may_go_on.set()
    for thread in (given_up, last):
        thread.join(30)
    assert segment_ids(store) == ["id-0", "id-1"]


def test_a_flush_after_the_end_writes_nothing(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path)
    deliver(shard, 0)
    shard.discard()
    shard.flush()
    assert segment_ids(store) == []


def test_the_record_names_files_in_input_order_with_exact_counts(store: SlowStore, tmp_path: Path) -> None:
    shard = open_shard(store, tmp_path)
    deliver(shard, 2)
    deliver(shard, 1, outcome=Failed("request_timeout", "late"))
    deliver(shard, 0)
    assert shard.commit() == Totals(
        2, 1, Usage(total_tokens=2), finish_reasons={"stop": 2}, error_codes={"request_timeout": 1}
    )
    record = record_of(store)
    assert record.results is not None
    assert record.retry is not None
    ids = [read_finished_line(line).custom_id for line in store.read(record.results.key).splitlines()]
    assert ids == ["id-0", "id-2"]
    assert store.read(record.retry.key) == b"input\n"
    assert (record.lines, record.started_at, record.finished_at) == (3, NOW, NOW)


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_commit_whose_answer_got_lost_is_ones_own(store: SlowStore, tmp_path: Path, exclusive: bool) -> None:
    shard = open_shard(store, tmp_path, lines=1, exclusive=exclusive)
    deliver(shard, 0)
    store.lose_answer_to = LAYOUT.record(0)
    with pytest.raises(StorageUnavailable):
        shard.commit()
    totals = shard.commit()
    assert totals is not None
    assert totals.completed == 1
    record = record_of(store)
    assert record.results is not None
    assert store.read(record.results.key).count(b"\n") == 1


@pytest.mark.parametrize(("index", "counted"), [(0, True), (1, False)])
def test_the_first_record_counts_for_the_index_that_wrote_it(
    store: SlowStore, tmp_path: Path, index: int, counted: bool
) -> None:
    theirs = open_shard(store, tmp_path, lines=1, attempt="theirs", index=index)
    mine = open_shard(store, tmp_path, lines=1, attempt="mine", index=0)
    for shard in (theirs, mine):
        deliver(shard, 0)
    theirs.commit()
    assert (mine.commit() is not None) == counted
    assert record_of(store).attempt == "theirs"
    assert [info.key for info in store.list(LAYOUT.shard_files)] == [LAYOUT.shard_file(0, "theirs", "results")]


def test_restoring_again_after_a_failure_counts_each_line_once(store: SlowStore, tmp_path: Path) -> None:
    first = open_shard(store, tmp_path, attempt="first")
    deliver(first, 0, 1)
    first.flush()
    shard = open_shard(store, tmp_path)
    store.write(LAYOUT.segment(0, "zzz", 0), b"damaged\n")
    with pytest.raises(ValueError, match="zzz-000000"):
        shard.restore()
    store.delete([LAYOUT.segment(0, "zzz", 0)])
    shard.restore()
    assert shard.tally.completed == 2
    assert not shard.unflushed, "what stands in segments is not written again"
    assert [shard.take_restored(position=n, custom_id=f"id-{n}", line=b"input") for n in range(3)] == [
        True,
        True,
        False,
    ]
    deliver(shard, 2)
    shard.end_of_input()
    assert shard.complete
    shard.commit()
    assert encode_record(record_of(store)).count(b'"lines":3')


class TestEarlierPart:
    """What an earlier BatchJob ended with of the shard: its results and errors lie in larger objects."""

    @staticmethod
    def put(store: SlowStore, *codes: int | str) -> None:
        """One line for each code, ids from `id-0` on: statuses, and codes of failures without an answer."""
        lines: dict[str, list[bytes]] = {"results": [], "errors": []}
        for number, code in enumerate(codes):
            ids = {"request_id": f"batch_req_old_{number + 1}", "custom_id": f"id-{number}"}
            if isinstance(code, str):
                line = failure_line(**ids, code=code, message="no")
            else:
                body = b'{"usage":{"total_tokens":1},"choices":[{"finish_reason":"stop"}]}'
                line = result_line(**ids, status=code, server_request_id="r", body=body)
            lines["results" if code == 200 else "errors"].append(line + b"\n")
        files: dict[str, ShardFile] = {}
        for kind, some in lines.items():
            before, own, after = b'{"not":"ours"}\n', b"".join(some), b"x\n"
            store.write(LAYOUT.earlier_file(kind), before + own + after)
            files[kind] = ShardFile(LAYOUT.earlier_file(kind), len(own), len(some), start=len(before))
        store.write(LAYOUT.earlier_part(0), encode_record(EarlierPart(files["results"], files["errors"])))

    def test_successes_and_final_answers_are_taken_and_nothing_else(self, store: SlowStore, tmp_path: Path) -> None:
        self.put(store, 200, 500, 400, "batch_cancelled", 200, 429)
        shard = open_shard(store, tmp_path, lines=6)
        shard.restore()
        taken = [shard.take_restored(position=n, custom_id=f"id-{n}", line=b"input") for n in range(6)]
        assert taken == [True, False, True, False, True, False]
        assert shard.tally.totals() == Totals(2, 1, Usage(total_tokens=2), {"stop": 2}, {"400": 1})
        assert not shard.unflushed, "it stands in the store already"

    def test_it_is_in_the_record_and_not_in_what_the_worker_counts(self, store: SlowStore, tmp_path: Path) -> None:
        self.put(store, 200, 400, "batch_expired")
        shard = open_shard(store, tmp_path)
        shard.restore()
        assert shard.worked == Totals(usage=Usage(total_tokens=0))
        for position in range(2):
            shard.take_restored(position=position, custom_id=f"id-{position}", line=b"input")
        deliver(shard, 2)
        shard.end_of_input()
        assert shard.commit() == shard.worked == Totals(1, 0, Usage(total_tokens=1), {"stop": 1}, {})
        record = record_of(store)
        assert record.totals == Totals(2, 1, Usage(total_tokens=2), {"stop": 2}, {"400": 1})
        assert record.results is not None
        lines = store.read(record.results.key).splitlines()
        assert [read_finished_line(line).custom_id for line in lines] == ["id-0", "id-2"]
        assert record.retry is not None
        assert store.read(record.retry.key) == b"input\n"

    def test_it_is_taken_beside_what_an_attempt_of_this_batchjob_finished(
        self, store: SlowStore, tmp_path: Path
    ) -> None:
        self.put(store, 200, 500, 500)
        first = open_shard(store, tmp_path, attempt="first")
        first.restore()
        deliver(first, 1)
        first.flush()
        (line,) = store.read(LAYOUT.segment(0, "first", 0)).splitlines()
        assert read_finished_line(line).custom_id == "id-1", "what stands is not written again"
        second = open_shard(store, tmp_path)
        second.restore()
        assert (second.tally.completed, second.worked.completed) == (2, 1)

    def test_what_is_gone_or_damaged_is_named(self, store: SlowStore, tmp_path: Path) -> None:
        self.put(store, 200)
        store.write(LAYOUT.earlier_file("results"), b"x" * 1000)
        with pytest.raises(RecordError, match=r"000000/earlier.json names is damaged"):
            open_shard(store, tmp_path).restore()
        store.delete([LAYOUT.earlier_file("results")])
        with pytest.raises(RecordError, match="is gone"):
            open_shard(store, tmp_path, attempt="again").restore()


def test_what_others_put_beside_the_segments_is_left_alone(store: SlowStore, tmp_path: Path) -> None:
    for name in ("notes.txt", ".marker", "0"):
        store.write(LAYOUT.shard_segments(0) + name, b"not ours\n")
    shard = open_shard(store, tmp_path)
    shard.restore()
    assert shard.tally.totals() == Totals()


class TestWithoutInput:
    """A shard whose input is gone keeps what was finished, and counts the rest."""

    def test_what_was_finished_comes_in_the_order_of_its_line_numbers(self, store: SlowStore, tmp_path: Path) -> None:
        first = open_shard(store, tmp_path, lines=12, attempt="first")
        deliver(first, 11, 3, 9)
        deliver(first, 5, outcome=Failed("request_timeout", "late"))
        first.flush()
        shard = open_shard(store, tmp_path, lines=12)
        shard.restore()
        shard.end_without_input(Failed("batch_cancelled", "cancelled"))
        assert shard.complete
        totals = shard.commit()
        assert totals is not None
        assert (totals.completed, totals.error_codes) == (3, {"request_timeout": 1, "batch_cancelled": 8})
        record = record_of(store)
        assert record.results is not None
        assert record.errors is not None
        assert record.retry is None
        ids = [read_finished_line(line).custom_id for line in store.read(record.results.key).splitlines()]
        assert ids == ["id-3", "id-9", "id-11"]
        assert (record.results.lines, record.errors.lines, record.lines) == (3, 1, 12)

    def test_segments_of_more_lines_than_the_shard_has_are_refused(self, store: SlowStore, tmp_path: Path) -> None:
        first = open_shard(store, tmp_path, lines=3, attempt="first")
        deliver(first, 0, 1, 2)
        first.flush()
        shard = open_shard(store, tmp_path, lines=2)
        shard.restore()
        with pytest.raises(RecordError, match="segments/000000/ hold 3 lines of another input"):
            shard.end_without_input(Failed("batch_cancelled", "cancelled"))
