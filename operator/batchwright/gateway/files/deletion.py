"""Removing a file: its record first, so that nobody finds it any more, then its bytes."""

import logging
import re
from http import HTTPStatus
from typing import Any, Final

from batchwright.api import names
from batchwright.api.conditions import TERMINAL_PHASES
from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.ids import is_file_id
from batchwright.gateway.records.file_record import BATCH, FileRecord
from batchwright.gateway.records.record_store import Exists, Stored
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import DeleteFailure

logger = logging.getLogger(__name__)

_PUBLISHED: Final = re.compile(r"batch-[0-9a-f]{32}/[A-Za-z0-9._-]+\.jsonl")


def delete_file(gateway: Gateway, stored: Stored[FileRecord]) -> None:
    """Remove a file's record and bytes; whoever is reading the bytes may lose them. Blocks.

    Where the bytes can't be removed the record is put back, so that they aren't forgotten and it can be tried again.

    Raises:
        ApiError: 409 naming the batch that still reads it; 503 or 500 where the storage didn't delete the bytes.
        StorageError, KubernetesError: nothing was removed.
    """
    record = stored.record
    if not lies_in_tenant_folder(record):
        raise ValueError(f"{record.id}: no key of a file of ours: {record.key!r}")
    if record.purpose == BATCH and (batch := live_reader(gateway, record)):
        raise errors.conflict(
            f"File {record.id} is the input of batch '{batch}', which has not ended. Cancel the batch, or wait for its"
            " end.",
            code="file_in_use",
        )
    remove_unread(gateway, record)


def remove_unread(gateway: Gateway, record: FileRecord) -> None:
    """Remove a file that no batch reads, as whoever calls knows. Blocks. Raises as `delete_file`."""
    gateway.files.delete(record.namespace, record.id)
    folder = gateway.tenant(record.namespace)
    for failure in folder.store.delete([folder.key(record.key)]):
        _put_back(gateway, record)
        raise _not_deleted(record, failure)


def lies_in_tenant_folder(record: FileRecord) -> bool:
    """Whether a record's key is an upload's or a published file's: nothing else is ever deleted."""
    return is_file_id(record.key) or _PUBLISHED.fullmatch(record.key) is not None


def live_reader(gateway: Gateway, record: FileRecord) -> str | None:
    """The id of a batch, of either face, that reads an upload and has not ended. One by path names it by its URI."""
    uri = f"{gateway.tenant(record.namespace).uri}{record.key}"
    for batchjob in gateway.batchjobs.list(record.namespace, names.LABEL_GATEWAY):
        annotations = batchjob["metadata"].get("annotations") or {}
        source = ((batchjob.get("spec") or {}).get("input") or {}).get("uri")
        reads = source == uri or annotations.get(names.ANNOTATION_INPUT_FILE_ID) == record.id
        if reads and not _has_ended(batchjob):
            return str(annotations.get(names.ANNOTATION_BATCH_ID) or batchjob["metadata"]["name"])
    return None


def _has_ended(batchjob: dict[str, Any]) -> bool:
    return (batchjob.get("status") or {}).get("phase") in TERMINAL_PHASES


def _put_back(gateway: Gateway, record: FileRecord) -> None:
    try:
        gateway.files.create(record.namespace, record.id, record)
    except (StorageError, Exists) as error:
        logger.error("%s/%s lies in the storage without a record: %s", record.namespace, record.key, error)  # noqa: TRY400 (one line says it)


def _not_deleted(record: FileRecord, failure: DeleteFailure) -> ApiError:
    logger.error("%s/%s was not deleted: %s", record.namespace, record.key, failure.reason)
    if failure.retryable:
        return errors.unavailable("The storage did not delete the file. Try again.")
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The storage refused to delete the file. An administrator finds more in the gateway's log.",
        code="storage_error",
        kind=errors.SERVER_ERROR,
    )
