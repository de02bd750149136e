"""The committed shards of a batch, read from its tenant's folder."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from batchwright.api.names import ERRORS_OBJECT, RESULTS_OBJECT
from batchwright.batchfile.shard_record import ERRORS, RESULTS, ShardFile, ShardRecord
from batchwright.gateway.shard_records import ShardRecords
from batchwright.gateway.tenant_folder import TenantFolder

READERS: Final = 16
KINDS: Final = (RESULTS, ERRORS)
"""What a client gets of a shard, in this order."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A shard's lines: where each of its files stands. A shard without lines of a kind has none of it."""

    shard: int
    files: tuple[ShardFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(file.bytes for file in self.files)


def committed(reader: ShardRecords, folder: TenantFolder, batchjob: str, fingerprint: str) -> Mapping[int, ShardRecord]:
    """The record of each committed shard, by its number, in order.

    One that can't be read, or names a file outside of the BatchJob's own folder, is passed over: no tenant is shown
    another's lines by a forged one. Raises StorageError.
    """
    found = list(reader.listed(folder, batchjob, fingerprint))
    base = folder.key(f"{batchjob}/")
    with ThreadPoolExecutor(READERS) as readers:
        records = readers.map(lambda item: reader.read(folder, item[1]), found)
        return {
            shard: record
            for (shard, _), record in zip(found, records, strict=True)
            if record is not None and record.shard == shard and _keeps_to(base, record)
        }


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
