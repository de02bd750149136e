"""Beginning a generation of the work with what stands of an earlier one. See `batchfile.origin_record`.

What the earlier one published is copied within the store, since this one will publish over it. Where the lines of each
shard stand in there follows from the earlier shard records: a published object is the shards' files in their order.
No line is read for it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.origin_record import EarlierPart, OriginRecord, all_stand, standing
from batchwright.batchfile.plan_record import RANGES_VERSION, PlanRecord, encode_record
from batchwright.batchfile.shard_record import (
    ERRORS,
    KINDS,
    RESULTS,
    RETRY,
    ShardFile,
    ShardRecord,
    SummaryRecord,
    Totals,
)
from batchwright.storage.errors import NotFound, PreconditionFailed
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectRange, ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.published import read_records
from batchwright.worker.run.tally import add_totals

logger = logging.getLogger(__name__)

WRITERS: Final = 16
"""Records written at once."""
COPY_PATIENCE_SECONDS: Final = 60.0
"""How long the store may be away in the midst of a copy."""

Files = Mapping[str, ShardFile]
"""By kind."""


@dataclass(frozen=True, slots=True)
class Seed:
    """What the next generation begins with."""

    plan: PlanRecord
    """Of the earlier generation."""
    records: Sequence[ShardRecord]
    """Of all its shards, in order."""
    origin: OriginRecord


def prepare_seed(store: ObjectStore, layout: WorkLayout, plan: PlanRecord, summary: SummaryRecord) -> Seed | None:
    """What stands of a generation whose summary and published objects are there; None where its records don't tell
    where. Nothing is written.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    try:
        records = read_records(store, [layout.record(number) for number in range(len(plan.shards))])
    except NotFound as error:
        logger.warning("the work is done again, since a record of what was done is missing: %s", error)
        return None
    for kind in KINDS:
        published = summary.published.get(kind)
        if _bytes(records, kind) != (published.bytes if published is not None else 0):
            logger.warning("the work is done again: %s is not made up as its records say", layout.summary)
            return None
    reused = Totals()
    for record in records:
        reused = add_totals(reused, standing(record.totals))
    whole = sum(all_stand(record.totals) for record in records)
    return Seed(plan, records, OriginRecord(summary.fingerprint, dict(summary.published), reused, whole))


def _bytes(records: Iterable[ShardRecord], kind: str) -> int:
    return sum(file.bytes for record in records if (file := record.file(kind)) is not None)


def sow(store: ObjectStore, layout: WorkLayout, seed: Seed, *, exclusive: bool) -> None:
    """Write everything of a generation but its plan. It may be called again, and by two at once with the same seed.
    `exclusive`: the store honours conditional PUT.

    Raises:
        NotFound, ObjectChanged: what was published is gone or replaced meanwhile.
        StorageError: the storage refuses or is away.
    """
    copies = {kind: _copy(store, layout.earlier_file(kind), file) for kind, file in seed.origin.published.items()}
    sown = _sown(store, layout)
    writes = [
        partial(_sow_shard, store, layout, record, files, exclusive=exclusive)
        for record, files in zip(seed.records, ranges_of(seed.records, copies), strict=True)
        if record.shard not in sown
    ]
    with ThreadPoolExecutor(WRITERS) as writers:
        for _ in writers.map(_call, writes):
            pass


def _call(write: Callable[[], None]) -> None:
    write()


def _copy(store: ObjectStore, key: str, file: ShardFile) -> ShardFile:
    """A copy within the store. One that stands there is of the same origin, hence whole and the same."""
    found = find(store, key)
    if found is None or found.size != file.bytes:
        whole = ObjectRange(file.key, 0, file.bytes, file.etag)
        store.join(key, [whole], patience=Patience(COPY_PATIENCE_SECONDS))
        logger.info("%s is kept as %s", store.uri(file.key), store.uri(key))
    return ShardFile(key, file.bytes, file.lines)


def _sown(store: ObjectStore, layout: WorkLayout) -> set[int | None]:
    """Shards that an earlier attempt has written already."""
    records = {layout.shard_of_record(info.key) for info in store.list(layout.records)}
    return records | {layout.shard_of_earlier_part(info.key) for info in store.list(layout.segments)}


def ranges_of(records: Iterable[ShardRecord], whole: Files) -> Iterable[Files]:
    """Where each shard's files stand in objects that are the files of all shards, in order."""
    ends = dict.fromkeys(KINDS, 0)
    for record in records:
        ranges: dict[str, ShardFile] = {}
        for kind in KINDS:
            file = record.file(kind)
            if file is not None:
                ranges[kind] = ShardFile(whole[kind].key, file.bytes, file.lines, start=ends[kind])
                ends[kind] += file.bytes
        yield ranges


def _sow_shard(store: ObjectStore, layout: WorkLayout, record: ShardRecord, files: Files, *, exclusive: bool) -> None:
    totals = standing(record.totals)
    if all_stand(record.totals):
        whole = msgspec.structs.replace(
            record,
            run=0,
            results=files.get(RESULTS),
            errors=files.get(ERRORS),
            retry=files.get(RETRY),
            version=RANGES_VERSION,
        )
        try:
            store.write(layout.record(record.shard), encode_record(whole), if_none_match=exclusive)
        except PreconditionFailed:
            logger.debug("shard %d has its record already", record.shard)
    elif totals.completed or totals.failed:
        part = EarlierPart(files.get(RESULTS), files.get(ERRORS) if totals.failed else None)
        store.write(layout.earlier_part(record.shard), encode_record(part))
