"""Reading a batch's results while it runs: whatever the pages and the order of commits, each line comes once."""

import hashlib
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.batchfile.layout import OutputLayout
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import ERRORS, RESULTS, ShardFile, ShardRecord, Totals
from batchwright.gateway.partial_results import page
from batchwright.gateway.partial_results.cursor import Cursor, decode
from batchwright.gateway.partial_results.page import BETWEEN
from batchwright.gateway.partial_results.shards import as_published, as_written, committed
from batchwright.gateway.shard_records import ShardRecords
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.errors import NotFound, StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectStore

BATCHJOB = "batch-1"
FINGERPRINT = "0123456789abcdef"
LAYOUT = OutputLayout(f"{BATCHJOB}/").work(FINGERPRINT)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Shard = tuple[int, int]
"""How many results, how many errors."""


@dataclass(frozen=True, slots=True)
class LinesOfPage:
    """A page that was read."""

    lines: list[bytes]
    after: Cursor
    has_more: bool


class Work:
    """A BatchJob's work objects in a tenant's folder, as its workers write them."""

    def __init__(self, root: Path, shards: list[Shard]) -> None:
        self.store = FileStore(root)
        self.folder = TenantFolder("team-a", self.store, "", f"file://{root}/")
        self.shards = shards
        self.reader = ShardRecords(100)

    def lines(self, shard: int) -> dict[str, list[bytes]]:
        results, failures = self.shards[shard]
        return {
            RESULTS: [b'{"custom_id": "%d-ok-%d"}' % (shard, number) for number in range(results)],
            ERRORS: [b'{"custom_id": "%d-bad-%d"}' % (shard, number) for number in range(failures)],
        }

    def commit(self, shard: int, **changed: ShardFile) -> None:
        files = {}
        for kind, lines in self.lines(shard).items():
            if lines:
                data = b"".join(line + b"\n" for line in lines)
                info = self.store.write(LAYOUT.shard_file(shard, "a1", kind), data)
                files[kind] = ShardFile(info.key, len(data), len(lines))
        record = ShardRecord(shard, 1, 0, "a1", sum(self.shards[shard]), Totals(), NOON, NOON, **{**files, **changed})
        self.store.write(LAYOUT.record(shard), encode_record(record))

    def publish(self) -> None:
        """What the merge does: the shards' files in order, then these are deleted."""
        for kind in (RESULTS, ERRORS):
            lines = [line for shard in range(len(self.shards)) for line in self.lines(shard)[kind]]
            self.store.write(f"{BATCHJOB}/{kind}.jsonl", b"".join(line + b"\n" for line in lines))
        assert not self.store.delete(info.key for info in self.store.list(LAYOUT.shard_files))

    def page(self, cursor: Cursor, limit: int, *, ended: bool = False, store: Any = None) -> page.Page:
        records = committed(self.reader, self.folder, BATCHJOB, FINGERPRINT)
        shards = as_published(self.folder, BATCHJOB, records) if ended else as_written(records)
        return page.Page(store or self.store, shards, cursor, limit)

    def read(self, cursor: Cursor, limit: int, *, ended: bool = False, store: Any = None) -> "LinesOfPage":
        now = self.page(cursor, limit, ended=ended, store=store)
        pieces = list(now.pieces())
        assert b"" not in pieces
        lines = b"".join(pieces)
        return LinesOfPage(lines.split(BETWEEN) if lines else [], now.after, now.has_more)

    def read_all(self, cursor: Cursor, limit: int, *, ended: bool = False) -> tuple[list[bytes], Cursor]:
        found: list[bytes] = []
        for _ in range(1000):
            now = self.read(cursor, limit, ended=ended)
            assert len(now.lines) <= limit
            found += now.lines
            cursor = decode(now.after.encoded())
            if not now.has_more:
                return found, cursor
        raise AssertionError("the pages have no end")


@contextmanager
def work_of(shards: list[Shard]) -> Iterator[Work]:
    with TemporaryDirectory() as folder:
        yield Work(Path(folder), shards)


def all_lines(work: Work, shards: Iterable[int]) -> list[bytes]:
    return sorted(line for shard in shards for kind in (RESULTS, ERRORS) for line in work.lines(shard)[kind])


@settings(max_examples=40)
@given(
    shards=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=6),
    limit=st.integers(1, 7),
    chunk=st.sampled_from([1, 2, 7, 23, 24, 1000]),
    most=st.sampled_from([1, 30, 48, 10_000]),
    data=st.data(),
)
def test_each_line_comes_once_whatever_was_committed_between_the_pages(
    shards: list[Shard], limit: int, chunk: int, most: int, data: st.DataObject
) -> None:
    with (
        work_of(shards) as work,
        patch.object(page, "CHUNK_BYTES", chunk),
        patch.object(page, "MAX_PAGE_BYTES", most),
    ):
        order = data.draw(st.permutations(range(len(shards))))
        found, cursor = [], Cursor()
        for shard in order:
            work.commit(shard)
            for _ in range(data.draw(st.integers(0, 2))):
                now = work.read(cursor, limit)
                found += now.lines
                cursor = decode(now.after.encoded())
        work.publish()
        rest, _ = work.read_all(cursor, limit, ended=True)
        assert sorted(found + rest) == all_lines(work, range(len(shards)))


def test_a_shard_is_shown_in_the_input_s_order_its_errors_after_its_results() -> None:
    with work_of([(2, 1)]) as work:
        work.commit(0)
        assert work.read(Cursor(), 10).lines == [*work.lines(0)[RESULTS], *work.lines(0)[ERRORS]]


def test_what_comes_later_is_found_from_the_same_place() -> None:
    with work_of([(1, 0), (1, 0)]) as work:
        work.commit(1)
        first, cursor = work.read_all(Cursor(), 10)
        work.commit(0)
        second, _ = work.read_all(cursor, 10)
        assert (first, second) == (work.lines(1)[RESULTS], work.lines(0)[RESULTS])


def test_a_page_ends_by_its_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_PAGE_BYTES", 30)
    with work_of([(4, 0)]) as work:
        work.commit(0)
        assert len(work.read(Cursor(), 100).lines) == 2
        assert len(work.read_all(Cursor(), 100)[0]) == 4


@pytest.mark.parametrize("chunk", [1, 10, 30, 1000])
def test_a_page_has_no_more_lines_than_were_asked_for_wherever_chunks_end(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "CHUNK_BYTES", chunk)
    with work_of([(3, 2), (1, 0)]) as work:
        work.commit(0)
        work.commit(1)
        sizes, cursor, has_more = [], Cursor(), True
        while has_more:
            now = work.read(cursor, 2)
            sizes.append(len(now.lines))
            cursor, has_more = now.after, now.has_more
        assert sizes == [2, 2, 2]


def test_a_line_is_never_held_however_long_it_is() -> None:
    mebibyte = 1 << 20
    with work_of([(2, 0)]) as work:
        long, short = b'{"a": "%s"}' % (b"x" * 64 * mebibyte), b'{"b": 1}'
        info = work.store.write(LAYOUT.shard_file(0, "a1", RESULTS), b"%s\n%s\n" % (long, short))
        work.commit(0, results=ShardFile(info.key, len(long) + len(short) + 2, 2))
        work.store.write(LAYOUT.shard_file(0, "a1", RESULTS), b"%s\n%s\n" % (long, short))
        wanted = hashlib.sha256(long).digest()
        del long
        first, found = work.page(Cursor(), 10), hashlib.sha256()
        tracemalloc.start()
        for piece in first.pieces():
            assert len(piece) <= page.CHUNK_BYTES + len(BETWEEN)
            found.update(piece)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * mebibyte
        assert (found.digest(), first.has_more) == (wanted, True)
        assert work.read(first.after, 10) == LinesOfPage([short], Cursor({0}), has_more=False)


class CutStore:
    """A store whose reads of one kind of file break off after so many bytes."""

    def __init__(self, store: ObjectStore, kind: str, after: int) -> None:
        self.store = store
        self.kind = kind
        self.after = after

    def stream(self, key: str, **arguments: Any) -> Iterator[bytes]:
        whole = b"".join(self.store.stream(key, **arguments))
        if self.kind not in key:
            yield whole
            return
        if whole[: self.after]:
            yield whole[: self.after]
        raise StorageUnavailable("GetObject", key)


def test_what_fails_between_two_lines_ends_the_page_there() -> None:
    with work_of([(2, 2)]) as work:
        work.commit(0)
        results, failures = work.lines(0)[RESULTS], work.lines(0)[ERRORS]
        for after, lines in ((0, results), (len(failures[0]) + 1, [*results, failures[0]])):
            now = work.read(Cursor(), 10, store=CutStore(work.store, ERRORS, after))
            assert (now.lines, now.has_more) == (lines, True)
            assert work.read(now.after, 10).lines == [*results, *failures][len(lines) :]


@pytest.mark.parametrize(("kind", "after"), [(RESULTS, 0), (RESULTS, 5), (ERRORS, 5)])
def test_what_fails_before_or_within_a_line_fails_the_page(kind: str, after: int) -> None:
    with work_of([(2, 2)]) as work:
        work.commit(0)
        with pytest.raises(StorageUnavailable):
            work.read(Cursor(), 10, store=CutStore(work.store, kind, after))


def test_files_that_the_merge_has_deleted_are_missed() -> None:
    with work_of([(1, 0)]) as work:
        work.commit(0)
        work.publish()
        with pytest.raises(NotFound):
            work.read(Cursor(), 10)


@pytest.mark.parametrize("offset", [1, 5, 23, 1000])
def test_a_place_within_a_line_is_none(offset: int) -> None:
    with work_of([(2, 0)]) as work:
        work.commit(0)
        if offset == 1000:  # behind the end: nothing is left of the shard
            assert work.read(Cursor(shard=0, offset=offset), 10).lines == []
            return
        with pytest.raises(ValueError, match="place"):
            work.read(Cursor(shard=0, offset=offset), 10)


FORGED: Mapping[str, ShardFile] = {
    "of another tenant": ShardFile("../team-b/batch-2/results.jsonl", 10, 1),
    "of another tenant, by a way through its own folder": ShardFile(
        "batch-1/../../team-b/batch-2/results.jsonl", 10, 1
    ),
    "of another batch": ShardFile("batch-2/results.jsonl", 10, 1),
    "with a prefix that only looks like it": ShardFile("batch-1x/results.jsonl", 10, 1),
    "of a negative size": ShardFile("batch-1/results.jsonl", -1, 1),
    "before the file's beginning": ShardFile("batch-1/results.jsonl", 1, 1, start=-5),
}


@pytest.mark.parametrize("file", FORGED.values(), ids=FORGED.keys())
def test_a_record_that_names_a_file_elsewhere_is_passed_over(file: ShardFile) -> None:
    with work_of([(1, 0), (1, 0)]) as work:
        work.commit(0, results=file)
        work.commit(1)
        assert work.read_all(Cursor(), 10)[0] == work.lines(1)[RESULTS]


def test_a_record_larger_than_any_worker_writes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with work_of([(1, 0), (1, 0)]) as work:
        work.commit(0)
        work.commit(1)
        largest = max(info.size for info in work.store.list(LAYOUT.records))
        monkeypatch.setattr("batchwright.gateway.shard_records.MOST_BYTES", largest)
        work.store.write(LAYOUT.record(0), b" " + work.store.read(LAYOUT.record(0)) + b" " * largest)
        assert work.read_all(Cursor(), 10)[0] == work.lines(1)[RESULTS]


@pytest.mark.parametrize("fingerprint", ["", "..", "../../team-b", "0123456789abcdef/..", "0123456789ABCDEF"])
def test_a_fingerprint_that_is_none_has_no_shards(fingerprint: str) -> None:
    with work_of([(1, 0)]) as work:
        work.commit(0)
        assert committed(work.reader, work.folder, BATCHJOB, fingerprint) == {}


@pytest.mark.parametrize("text", ["x", "====", "MC8v", "LTEvLzA", "MC8xLy0x", "Lzk5Ly8w", "é"])
def test_a_made_up_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="place"):
        decode(text)


@given(st.sets(st.integers(0, 9999)), st.none() | st.integers(0, 9999), st.integers(0, 10**12))
def test_a_cursor_survives_the_journey(done: set[int], shard: int | None, offset: int) -> None:
    assert decode(Cursor(frozenset(done), shard, offset).encoded()) == Cursor(frozenset(done), shard, offset)
