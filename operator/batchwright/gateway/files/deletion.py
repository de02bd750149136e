"""Removing a file, so that a process that is killed on the way leaves nothing behind.

First its record is made one that has expired: nobody finds the file any more, and the keeper would finish what comes
now. Then go the bytes, and at last the record.
"""

import logging
import re
from http import HTTPStatus
from typing import Final

import msgspec

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.finding import is_expired
from batchwright.gateway.files.readers import live_reader, recorded_reader
from batchwright.gateway.ids import is_file_id
from batchwright.gateway.records.file_record import FileRecord, keys_of
from batchwright.gateway.records.record_store import Changed, RecordNotDeleted, Stored
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import DeleteFailure

logger = logging.getLogger(__name__)

_PUBLISHED: Final = re.compile(r"batch-[0-9a-f]{32}/[A-Za-z0-9._-]+\.jsonl")


def delete_file(gateway: Gateway, stored: Stored[FileRecord]) -> None:
    """Remove a file's record and bytes; whoever is reading the bytes may lose them. Blocks.

    Where the bytes can't be removed the file is there as before, so that it can be tried again. Should the storage not
    even take that, nobody finds the file any more, and the keeper removes it once the storage is back.

    Raises:
        ApiError: 404 where somebody else was faster; 409 naming the batch that still reads it; 503 or 500 where the
            storage didn't delete the bytes.
        StorageError, KubernetesError: nothing was removed.
    """
    _refuse(stored.record, live_reader(gateway, stored.record))
    _remove(gateway, stored)


def remove_unread(gateway: Gateway, record: FileRecord) -> None:
    """Remove a file that no batch reads, as whoever calls knows. Blocks. Raises as `delete_file`."""
    stored = gateway.files.get(record.namespace, record.id)
    if stored is not None:
        _remove(gateway, stored)


def remove_expired(gateway: Gateway, record: FileRecord) -> None:
    """The same, where the file has expired: one that was put back meanwhile stays."""
    stored = gateway.files.get(record.namespace, record.id)
    if stored is not None and is_expired(stored.record, gateway.clock()):
        _remove(gateway, stored)


def drop_unanswered(gateway: Gateway, namespace: str, file_id: str) -> None:
    """Remove a file that nobody was told of, since writing its record failed. Blocks. Raises StorageError.

    The record goes first, which may be written though the storage said nothing or something else. Where it can't be
    deleted there is a whole file, or bytes without a record, which the keeper finds.
    """
    folder = gateway.tenant(namespace)
    try:
        gateway.files.delete(namespace, file_id)
    except RecordNotDeleted as error:
        logger.warning("%s of %s stays for now: %s", file_id, namespace, error)
    else:
        folder.store.delete([folder.key(file_id)])


def _remove(gateway: Gateway, stored: Stored[FileRecord]) -> None:
    record = stored.record
    _check_key(record)
    marked = stored if is_expired(record, gateway.clock()) else _marked(gateway, stored)
    try:
        if marked is not stored:  # a batch that was made meanwhile has its record by now, or finds no file
            _refuse(record, recorded_reader(gateway, record))
        _delete_bytes(gateway, record)
    except (ApiError, StorageError):
        if marked is not stored:
            _put_back(gateway, marked, record)
        raise
    _delete_record(gateway, record)


def _check_key(record: FileRecord) -> None:
    """Nothing but uploads and published files is ever deleted."""
    if not is_file_id(record.key) and _PUBLISHED.fullmatch(record.key) is None:
        raise ValueError(f"{record.id}: no key of a file of ours: {record.key!r}")


def _refuse(record: FileRecord, reader: str | None) -> None:
    if reader is not None:
        message = f"File {record.id} is the input of batch '{reader}', which has not ended."
        raise errors.conflict(f"{message} Cancel the batch, or wait for its end.", code="file_in_use")


def _marked(gateway: Gateway, stored: Stored[FileRecord]) -> Stored[FileRecord]:
    """The record as that of a file that has expired, whatever another replica's clock says."""
    record = stored.record
    gone = msgspec.structs.replace(record, expires_at=record.created_at)
    try:
        return gateway.files.replace(record.namespace, record.id, stored, gone)
    except Changed as error:
        raise errors.no_such_file(record.id) from error


def _put_back(gateway: Gateway, marked: Stored[FileRecord], record: FileRecord) -> None:
    try:
        gateway.files.replace(record.namespace, record.id, marked, record)
    except (StorageError, Changed) as error:
        logger.warning("%s of %s is being removed by the keeper: %s", record.id, record.namespace, error)


def _delete_bytes(gateway: Gateway, record: FileRecord) -> None:
    folder = gateway.tenant(record.namespace)
    for key in keys_of(record):
        for failure in folder.store.delete([folder.key(key)]):
            raise _not_deleted(record, failure)


def _delete_record(gateway: Gateway, record: FileRecord) -> None:
    """The file is gone for everybody; a record that stays is the keeper's to remove."""
    try:
        gateway.files.delete(record.namespace, record.id)
    except RecordNotDeleted as error:
        logger.warning("the record of %s of %s stays for now: %s", record.id, record.namespace, error)


def _not_deleted(record: FileRecord, failure: DeleteFailure) -> ApiError:
    logger.error("%s: %s was not deleted: %s", record.namespace, failure.key, failure.reason)
    if failure.retryable:
        return errors.unavailable("The storage did not delete the file. Try again.")
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The storage refused to delete the file. An administrator finds more in the gateway's log.",
        code="storage_error",
        kind=errors.SERVER_ERROR,
    )
