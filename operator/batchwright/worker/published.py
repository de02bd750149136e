"""What a merge published before, and whether earlier work can still be finished from what stands in the store."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from batchwright.api.defaults import PublishedNames
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import decode_record
from batchwright.batchfile.shard_record import ERRORS, KINDS, RESULTS, RETRY, ShardRecord, SummaryRecord
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.stage import Stage

READERS: Final = 16
"""Shard records read at once."""


def published_keys(stage: Stage) -> Mapping[str, str]:
    """Where each kind is published, as the spec has it now."""
    names: PublishedNames = stage.names
    wanted = {RESULTS: names.results, ERRORS: names.errors, RETRY: names.retry}
    return {kind: stage.layout.published(name) for kind, name in wanted.items()}


def published_before(stage: Stage, layout: WorkLayout) -> SummaryRecord | None:
    """The summary of a merge that was done before, as long as all that it published still stands there.

    It may have been published under other names than the spec's by now. Where one of these is the name of another
    kind by then, a copy would overwrite what it is yet to be made from: that counts as gone.

    Raises:
        StorageError, RecordError: the storage or the summary can't be used.
    """
    store = stage.output_store
    if find(store, layout.summary) is None:
        return None
    summary = decode_record(store.read(layout.summary), SummaryRecord)
    for file in summary.published.values():
        found = find(store, file.key)
        if found is None or (found.size, found.etag) != (file.bytes, file.etag):
            return None
    kinds = {file.key: kind for kind, file in summary.published.items()}
    if any(kinds.get(key, kind) != kind for kind, key in published_keys(stage).items()):
        return None
    return summary


def can_be_finished(stage: Stage, layout: WorkLayout) -> bool:
    """Whether work with a plan can be gone on with: what its shard records name, or what was made of it, is there.

    The merge deletes the shard files. When what it published is deleted or overwritten later on, the records promise
    what is no more.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    store = stage.output_store
    committed = [info.key for info in store.list(layout.records) if layout.shard_of_record(info.key) is not None]
    if not committed or published_before(stage, layout) is not None:
        return True
    records = read_records(store, committed)  # before the listing, since a record is written after its files
    sizes = {info.key: info.size for info in store.list(layout.shard_files)}
    files = [file for record in records for kind in KINDS if (file := record.file(kind)) is not None]
    return all(sizes.get(file.key) == file.bytes for file in files)


def read_records(store: ObjectStore, keys: Sequence[str]) -> list[ShardRecord]:
    """Shard records, many at once.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    with ThreadPoolExecutor(READERS) as readers:
        return [decode_record(data, ShardRecord) for data in readers.map(store.read, keys)]
