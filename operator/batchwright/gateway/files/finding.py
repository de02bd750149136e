"""One file by its id, for whoever may see it."""

from datetime import datetime

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.ids import is_file_id
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import Stored
from batchwright.gateway.records.visible import visible_record


def find_file(gateway: Gateway, principal: Principal, file_id: str) -> Stored[FileRecord]:
    """The file's record. An administrator without a namespace finds any tenant's. Blocks.

    Raises:
        ApiError: 404 in the same words for one that never was, is another tenant's, or has expired.
    """
    stored = visible_record(gateway.files, principal, file_id) if is_file_id(file_id) else None
    if stored is None or is_expired(stored.record, gateway.clock()):
        raise errors.no_such_file(file_id)
    return stored


def is_expired(record: FileRecord, now: datetime) -> bool:
    """Whether a file is gone for everybody, though the keeper may not have removed it yet."""
    return record.expires_at is not None and record.expires_at <= now
