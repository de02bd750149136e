"""What a merge published before, and whether earlier work can still be finished from what stands in the store."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final

import msgspec

from batchwright.api.defaults import PublishedNames
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.origin_record import OriginRecord
from batchwright.batchfile.plan_record import decode_record, encode_record
from batchwright.batchfile.shard_record import (
    ERRORS,
    KINDS,
    RESULTS,
    RETRY,
    ShardFile,
    ShardRecord,
    SummaryRecord,
)
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


def progress_key(stage: Stage) -> str | None:
    """Where the progress object is published; None where none is wanted."""
    return stage.layout.published(stage.names.progress) if stage.names.progress is not None else None


def published_before(stage: Stage, layout: WorkLayout) -> SummaryRecord | None:
    """The summary of a merge that was done before, as long as all that it published still stands there, and can be
    published under the names that the spec has by now.

    Raises:
        StorageError, RecordError: the storage or the summary can't be used.
    """
    summary = standing_summary(stage.output_store, layout)
    return None if summary is None or names_cross(stage, summary) else summary


def standing_summary(store: ObjectStore, layout: WorkLayout) -> SummaryRecord | None:
    """The summary of a merge that was done before, as long as all that it published still stands, under whatever names.

    Raises:
        StorageError, RecordError: the storage or the summary can't be used.
    """
    summary = _read_summary(store, layout)
    if summary is None or not all(as_it_stands(store, file) == file for file in summary.published.values()):
        return None
    return summary


def replaced_since(stage: Stage, layout: WorkLayout, began: datetime) -> SummaryRecord | None:
    """The summary that another merge of the same work has written since this one began, where this one has replaced
    some of its objects meanwhile: they hold the same bytes, and may bear another ETag. The summary gets the new ones.

    Raises:
        StorageError, RecordError: the storage or the summary can't be used.
    """
    store = stage.output_store
    summary = _read_summary(store, layout)
    if summary is None or summary.finished_at < began or names_cross(stage, summary):
        return None
    published = {kind: as_it_stands(store, file) for kind, file in summary.published.items()}
    standing = {kind: file for kind, file in published.items() if file is not None}
    if standing.keys() != published.keys():
        return None
    summary = msgspec.structs.replace(summary, published=standing)
    store.write(layout.summary, encode_record(summary))
    return summary


def _read_summary(store: ObjectStore, layout: WorkLayout) -> SummaryRecord | None:
    if find(store, layout.summary) is None:
        return None
    return decode_record(store.read(layout.summary), SummaryRecord)


def as_it_stands(store: ObjectStore, file: ShardFile) -> ShardFile | None:
    """What was written as a file, with the ETag that it has now; None where it is gone or has another size. It is the
    same as `file` as long as nobody has touched it.

    Raises:
        StorageError: the storage can't be used.
    """
    found = find(store, file.key)
    if found is None or found.size != file.bytes:
        return None
    return msgspec.structs.replace(file, etag=found.etag)


def names_cross(stage: Stage, summary: SummaryRecord) -> bool:
    """Whether a name that the spec has by now is that of another kind of what was published: a copy to it, or the
    progress object, would overwrite what another one is yet to be made from.
    """
    kinds = {file.key: kind for kind, file in summary.published.items()}
    crossed = any(kinds.get(key, kind) != kind for kind, key in published_keys(stage).items())
    return crossed or progress_key(stage) in kinds


def committed_records(store: ObjectStore, layout: WorkLayout) -> list[ShardRecord]:
    """The records of all shards that have one.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    committed = [info.key for info in store.list(layout.records) if layout.shard_of_record(info.key) is not None]
    return read_records(store, committed)


def can_be_finished(store: ObjectStore, layout: WorkLayout, records: Iterable[ShardRecord]) -> bool:
    """Whether work with a plan that is not published can be gone on with: what its records name is there. They were
    read before, since a record is written after its files.

    The merge deletes the shard files. When what it published is deleted or overwritten later on, the records promise
    what is no more.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    origin = read_origin(store, layout)
    copies = {layout.earlier_file(kind): file.bytes for kind, file in origin.published.items()} if origin else {}
    named = {file.key: file for record in records for kind in KINDS if (file := record.file(kind)) is not None}
    wanted = {key: file.bytes for key, file in named.items() if not key.startswith(layout.earlier)} | copies
    if not wanted:
        return True
    prefixes = (layout.shard_files, layout.earlier) if copies else (layout.shard_files,)
    sizes = {info.key: info.size for prefix in prefixes for info in store.list(prefix)}
    return all(sizes.get(key) == size for key, size in wanted.items())


def read_origin(store: ObjectStore, layout: WorkLayout) -> OriginRecord | None:
    """What a further generation of the work was begun from; None for one that says nothing of it.

    Raises:
        StorageError, RecordError: the storage or the record can't be used.
    """
    return decode_record(store.read(layout.origin), OriginRecord) if find(store, layout.origin) is not None else None


def read_records(store: ObjectStore, keys: Sequence[str]) -> list[ShardRecord]:
    """Shard records, many at once.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    with ThreadPoolExecutor(READERS) as readers:
        return [decode_record(data, ShardRecord) for data in readers.map(store.read, keys)]
