"""The progress object at the end: exact counts, and how fast the run was."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import RecordError, decode_record, encode_record
from batchwright.batchfile.progress_object import ProgressRecord, counts_of, final_progress_object, rounded
from batchwright.batchfile.shard_record import SummaryRecord
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.closing import NO_INDEX
from batchwright.worker.existing import find
from batchwright.worker.published import progress_key, read_origin
from batchwright.worker.stage import Stage


@dataclass(frozen=True, slots=True)
class FinalProgress:
    """What became of the progress object; nothing where none is wanted."""

    seconds: float | None = None
    """How long the run was."""
    warnings: tuple[str, ...] = ()


def publish_progress(stage: Stage, layout: WorkLayout, summary: SummaryRecord, began: datetime | None) -> FinalProgress:
    """Publish the final progress object, if one is wanted. It may be done again, with the same result. `began` is the
    start of the run, None where nobody knows it but the records.

    Raises:
        StorageError: the store is away. That it refuses the object alone is a warning: the results are published.
    """
    key = progress_key(stage)
    if key is None:
        return FinalProgress()
    store = stage.output_store
    record = _record(store, layout)
    seconds = rounded(run_seconds(summary, record, began))
    try:
        origin = read_origin(store, layout)
        # The record first: a worker that was cut off and wakes up finds that the object is no longer its own.
        store.write(layout.progress, encode_record(_closed(record)))
        reused = counts_of(origin.reused).total_tokens if origin is not None else 0
        store.write(key, final_progress_object(counts_of(summary.totals), seconds=seconds, reused_tokens=reused))
    except StorageError as error:
        if error.retryable:
            raise
        return FinalProgress(seconds, (f"The progress object {store.uri(key)} is not up to date: {error}",))
    return FinalProgress(seconds)


def run_seconds(summary: SummaryRecord, record: ProgressRecord | None, began: datetime | None) -> float:
    """How long the run was: from its start, or the first shard's where that is all that is known, to the last sign of
    work. 0 where no worker was at work since.
    """
    begins = [moment for moment in (began, summary.worked_from) if moment is not None]
    ends = [
        moment for moment in (summary.worked_until, record.at if record is not None else None) if moment is not None
    ]
    if not begins or not ends:
        return 0.0
    return max(0.0, (max(ends) - begins[0]).total_seconds())


def _record(store: ObjectStore, layout: WorkLayout) -> ProgressRecord | None:
    """What the workers left. None for one that can't be read, since the counts are known from elsewhere."""
    if find(store, layout.progress) is None:
        return None
    try:
        return decode_record(store.read(layout.progress), ProgressRecord)
    except RecordError:
        return None


def _closed(record: ProgressRecord | None) -> ProgressRecord:
    """The record as no worker's. Its counts and time stay those of the workers."""
    attempt = secrets.token_hex(4)
    if record is None:
        return ProgressRecord(0, NO_INDEX, attempt, datetime.fromtimestamp(0, UTC))
    return msgspec.structs.replace(record, index=NO_INDEX, attempt=attempt)
