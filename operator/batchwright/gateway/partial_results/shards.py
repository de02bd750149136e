"""The committed shards of a batch, read from its tenant's folder."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Final

import msgspec

from batchwright.api.names import ERRORS_OBJECT, RESULTS_OBJECT
from batchwright.batchfile.layout import OutputLayout, WorkLayout
from batchwright.batchfile.plan_record import RecordError, decode_record
from batchwright.batchfile.shard_record import ERRORS, RESULTS, ShardFile, ShardRecord, Totals
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.errors import NotFound, ObjectChanged
from batchwright.storage.protocol import ObjectInfo, ObjectStore

READERS: Final = 16
KEPT: Final = 20_000
"""Shard records kept in memory, of a few hundred bytes each."""
MOST_BYTES: Final = 1 << 20
"""Of a record. A larger one is none that a worker wrote, and isn't read."""
KINDS: Final = (RESULTS, ERRORS)
"""What a client gets of a shard, in this order."""
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}(?:-[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Committed:
    """A shard's lines: where each of its files stands. A shard without lines of a kind has none of it."""

    shard: int
    files: tuple[ShardFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(file.bytes for file in self.files)


class ShardRecords:
    """Reads shard records, and keeps them: a record never changes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], ShardRecord] = OrderedDict()
        self._lock = Lock()

    def committed(self, folder: TenantFolder, batchjob: str, fingerprint: str) -> Mapping[int, ShardRecord]:
        """The record of each committed shard, by its number, in order.

        A record lies where a tenant's workers write: what it says is taken for a hint. One that can't be read, or names
        a file outside of the BatchJob's own folder, is passed over: no tenant is shown another's lines by a forged one.
        """
        if not _FINGERPRINT.fullmatch(fingerprint):
            return {}
        base = folder.key(f"{batchjob}/")
        layout = OutputLayout(base).work(fingerprint)
        found = list(_records(folder.store, layout))
        with ThreadPoolExecutor(READERS) as readers:
            records = readers.map(lambda item: self._read(folder.store, item[1]), found)
            return {
                shard: record
                for (shard, _), record in zip(found, records, strict=True)
                if record is not None and record.shard == shard and _keeps_to(base, record)
            }

    def _read(self, store: ObjectStore, info: ObjectInfo) -> ShardRecord | None:
        place = (store.uri(info.key), info.etag)
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place]
        try:
            data = b"".join(store.stream(info.key, end=MOST_BYTES, if_match=info.etag))
            found = decode_record(data, ShardRecord)
        except (NotFound, ObjectChanged, RecordError):
            return None
        # Without what may be large in it and isn't shown: many of them are kept.
        record = msgspec.structs.replace(found, attempt="", totals=Totals(), retry=None)
        with self._lock:
            self._kept[place] = record
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return record


def _records(store: ObjectStore, layout: WorkLayout) -> Iterator[tuple[int, ObjectInfo]]:
    for info in store.list(layout.records):
        shard = layout.shard_of_record(info.key)
        if shard is not None and info.size <= MOST_BYTES:
            yield shard, info


def _keeps_to(base: str, record: ShardRecord) -> bool:
    files = (file for kind in KINDS if (file := record.file(kind)) is not None)
    return all(_lies_in(base, file.key) and file.bytes >= 0 and file.start >= 0 for file in files)


def _lies_in(base: str, key: str) -> bool:
    """Also for a store that keeps keys as paths, and would follow a `..`."""
    inside = key.removeprefix(base)
    return key.startswith(base) and not any(word in ("", ".", "..") for word in inside.split("/"))


def as_written(records: Mapping[int, ShardRecord]) -> Iterator[Committed]:
    """Each shard's lines as its worker wrote them; they are there until the merge has published."""
    for shard, record in records.items():
        yield Committed(shard, tuple(file for kind in KINDS if (file := record.file(kind)) is not None))


def as_published(folder: TenantFolder, batchjob: str, records: Mapping[int, ShardRecord]) -> Iterator[Committed]:
    """Each shard's lines within what the merge published: the shards' files, in their order. For an ended batch, all of
    whose shards have a record.
    """
    names = {RESULTS: RESULTS_OBJECT, ERRORS: ERRORS_OBJECT}
    ends = dict.fromkeys(KINDS, 0)
    for shard, record in records.items():
        files = []
        for kind in KINDS:
            if (file := record.file(kind)) is not None:
                key = folder.key(f"{batchjob}/{names[kind]}")
                files.append(ShardFile(key, file.bytes, file.lines, start=ends[kind]))
                ends[kind] += file.bytes
        yield Committed(shard, tuple(files))
