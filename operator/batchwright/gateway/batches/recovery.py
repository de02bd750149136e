"""The end of a batch whose BatchJob was deleted before anybody took over its status.

Where the work had been published by then, the summary beside it has its counts; a person who tidies up finished
BatchJobs fails no batch. A summary lies in the tenant's own folder: what a tenant writes there tells of its own batch.
"""

import logging
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from batchwright.api.undone import Undone
from batchwright.batchfile.layout import WORK_FOLDER
from batchwright.batchfile.plan_record import PlanRecord, RecordError, decode_record
from batchwright.batchfile.shard_record import SummaryRecord
from batchwright.gateway.batches.rendering import DELETED, LATEST, counts_of, deleted_state, failed_state
from batchwright.gateway.batches.work_place import WorkPlace, work_place
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import OPENAI, BatchError, BatchRecord, BatchState, Status, Times
from batchwright.gateway.volumes import FILE_SCHEME
from batchwright.storage.errors import AccessDenied, BucketMissing, NotFound
from batchwright.storage.file import FileStore

logger = logging.getLogger(__name__)

_SUMMARY_BYTES: Final = 1 << 20
_PLAN_BYTES: Final = 16 << 20
"""So much of a record is read: one of a tenant's own making may be of any size."""
_STOPPED: Final[dict[Undone, Status]] = {Undone.CANCELLED: "cancelled", Undone.EXPIRED: "expired"}


def end_without_batchjob(gateway: Gateway, record: BatchRecord) -> BatchState:
    """The terminal state of a batch whose BatchJob is gone. Raises StorageError."""
    deleted = deleted_state(record, gateway.clock())
    place = work_place(gateway, record)
    if place is None:
        return _unseen(record, deleted, gateway.clock())
    try:
        found = _left_behind(record, place)
    except AccessDenied:
        if isinstance(place.store, FileStore):  # a link of the tenant's, or the workers' files are theirs alone
            return _unseen(record, deleted, gateway.clock())
        raise
    if found is None:
        return deleted
    summary, plan = found
    return _state(record, summary, msgspec.structs.replace(deleted, model=plan.model))


def _left_behind(record: BatchRecord, place: WorkPlace) -> tuple[SummaryRecord, PlanRecord] | None:
    """The records of what was published. None where nothing was, or they can't be a worker's."""
    try:
        fingerprint = _fingerprint(place)
        if fingerprint is None:
            return None
        work = place.layout.work(fingerprint)
        summary = decode_record(_beginning(place, work.summary, _SUMMARY_BYTES), SummaryRecord)
        plan = decode_record(_beginning(place, work.plan, _PLAN_BYTES), PlanRecord)
    except (NotFound, BucketMissing):
        return None
    except RecordError as error:
        logger.warning("what %s left can't be read: %s", record.id, error)
        return None
    moments = (summary.worked_from, summary.worked_until, summary.finished_at)
    if any(moment is not None and moment.tzinfo is None for moment in moments):
        logger.warning("what %s left has a time without its zone, which no worker writes", record.id)
        return None
    return summary, plan


def _unseen(record: BatchRecord, deleted: BatchState, now: datetime) -> BatchState:
    """Of a batch whose work the gateway can't look at."""
    if record.face == OPENAI or deleted.status == "cancelled":
        return deleted
    output = record.spec["output"]
    message = (
        "The BatchJob of this batch was deleted before the gateway knew how it ended; look there for what it published:"
        f" {output['uri'].removeprefix(FILE_SCHEME)}{output['folder']}."
    )
    return failed_state(record, now, BatchError(DELETED, message))


def _beginning(place: WorkPlace, key: str, most: int) -> bytes:
    """A record; one that is longer is cut, and no record then."""
    return b"".join(place.store.stream(key, end=most))


def _fingerprint(place: WorkPlace) -> str | None:
    """The work's folder: of a batch there is one, and its name comes before those of the other objects."""
    prefix = f"{place.layout.prefix}{WORK_FOLDER}/"
    for info in islice(place.store.list(prefix), 1):
        name, found, _ = info.key.removeprefix(prefix).partition("/")
        return name if found else None
    return None


def _state(record: BatchRecord, summary: SummaryRecord, deleted: BatchState) -> BatchState:
    totals = summary.totals
    undone = {code: totals.error_codes.get(code.value, 0) for code in Undone}
    counts = counts_of(summary.lines, totals.completed, totals.failed, totals.error_codes)
    state = msgspec.structs.replace(deleted, counts=counts, usage=totals.usage, error_codes=totals.error_codes)
    if undone[Undone.FAILED]:
        return state
    status = next((_STOPPED[code] for code in _STOPPED if undone[code]), "completed")
    begun = min(max(record.created_at, summary.worked_from), LATEST) if summary.worked_from else None
    end = min(max(summary.finished_at, begun or record.created_at), LATEST)
    cancelling = min(record.cancelling_at or end, end) if status == "cancelled" else None
    times = Times(in_progress_at=begun, cancelling_at=cancelling, **{f"{status}_at": end})
    message = f"It had ended as {status} before its BatchJob was deleted."
    return msgspec.structs.replace(
        state, status=status, message=message, errors=(), times=times, response_time=_seconds(summary)
    )


def _seconds(summary: SummaryRecord) -> float | None:
    if summary.worked_from is None or summary.worked_until is None:
        return None
    return max(0.0, (summary.worked_until - summary.worked_from).total_seconds())
