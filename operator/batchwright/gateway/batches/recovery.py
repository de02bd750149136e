"""The end of a batch whose BatchJob was deleted before anybody took over its status.

Where the work had been published by then, the summary beside it has its counts; a person who tidies up finished
BatchJobs fails no batch. A summary lies in the tenant's own folder: what a tenant writes there tells of its own batch.
"""

import logging
from itertools import islice
from typing import Final

import msgspec

from batchwright.api.undone import Undone
from batchwright.batchfile.layout import WORK_FOLDER, OutputLayout
from batchwright.batchfile.plan_record import PlanRecord, RecordError, decode_record
from batchwright.batchfile.shard_record import SummaryRecord
from batchwright.gateway import ids
from batchwright.gateway.batches.rendering import LATEST, counts_of, deleted_state
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord, BatchState, Status, Times
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.errors import BucketMissing, NotFound

logger = logging.getLogger(__name__)

_SUMMARY_BYTES: Final = 1 << 20
_PLAN_BYTES: Final = 16 << 20
"""So much of a record is read: one of a tenant's own making may be of any size."""
_STOPPED: Final[dict[Undone, Status]] = {Undone.CANCELLED: "cancelled", Undone.EXPIRED: "expired"}


def end_without_batchjob(gateway: Gateway, record: BatchRecord) -> BatchState:
    """The terminal state of a batch whose BatchJob is gone. Raises StorageError."""
    deleted = deleted_state(record, gateway.clock())
    if record.face != OPENAI:
        return deleted
    folder = gateway.tenant(record.namespace)
    layout = OutputLayout(folder.key(f"{ids.batchjob_name(record.id)}/"))
    try:
        fingerprint = _fingerprint(folder, layout)
        if fingerprint is None:
            return deleted
        work = layout.work(fingerprint)
        summary = decode_record(_beginning(folder, work.summary, _SUMMARY_BYTES), SummaryRecord)
        model = decode_record(_beginning(folder, work.plan, _PLAN_BYTES), PlanRecord).model
    except (NotFound, BucketMissing):
        return deleted
    except RecordError as error:
        logger.warning("what %s left can't be read: %s", record.id, error)
        return deleted
    if any(moment is not None and moment.tzinfo is None for moment in (summary.worked_from, summary.finished_at)):
        logger.warning("what %s left has a time without its zone, which no worker writes", record.id)
        return deleted
    return _state(record, summary, msgspec.structs.replace(deleted, model=model))


def _beginning(folder: TenantFolder, key: str, most: int) -> bytes:
    """A record; one that is longer is cut, and no record then."""
    return b"".join(folder.store.stream(key, end=most))


def _fingerprint(folder: TenantFolder, layout: OutputLayout) -> str | None:
    """The work's folder: of a batch there is one, and its name comes before those of the other objects."""
    prefix = f"{layout.prefix}{WORK_FOLDER}/"
    for info in islice(folder.store.list(prefix), 1):
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
    return msgspec.structs.replace(state, status=status, message=message, errors=(), times=times)
