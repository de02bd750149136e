"""Batches that the page makes: of an upload, and of the lines of another batch that failed. Methods block."""

import logging
from dataclasses import replace
from http import HTTPStatus
from itertools import takewhile
from typing import Final

from batchwright.api import names
from batchwright.gateway import errors, ids
from batchwright.gateway.batches.creation import create_batch
from batchwright.gateway.batches.schema import CreateBatch
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.deletion import drop_unanswered, remove_unread
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord
from batchwright.gateway.records.file_record import BATCH, FileRecord
from batchwright.gateway.records.record_store import RecordNotDeleted, Stored
from batchwright.storage.errors import NotFound, StorageError
from batchwright.storage.protocol import ObjectRange

logger = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255


def start_batch(
    gateway: Gateway,
    principal: Principal,
    file: FileRecord,
    *,
    endpoint: str,
    window: str | None = None,
    metadata: dict[str, str] | None = None,
) -> BatchRecord:
    """Make a batch of a file that was made for it. Where that fails, the file goes again.

    Raises:
        ApiError: an endpoint or window that isn't offered, too many batches, refused by the cluster.
        StorageError, KubernetesError: as `create_batch` does.
    """
    request = CreateBatch(input_file_id=file.id, endpoint=endpoint, completion_window=window or None, metadata=metadata)
    try:
        return create_batch(gateway, replace(principal, namespace=file.namespace), request, None)[0]
    except Exception:
        _remove(gateway, file)
        raise


def retry_failed(gateway: Gateway, principal: Principal, stored: Stored[BatchRecord]) -> BatchRecord:
    """Make a batch of the lines of another one that have no answer. They are copied into a file of its own.

    Raises:
        ApiError: 409 where there are none, or the batch hasn't ended; and as `start_batch` does.
        StorageError: they can't be copied.
    """
    before = stored.record
    if before.ending is None or before.face != OPENAI or not before.ending.state.published.retry_bytes:
        raise errors.conflict("There are no lines to retry: the batch has not ended, or none of its lines failed.")
    file = _copied(gateway, principal.user, before, before.ending.state.model)
    window = before.completion_window if before.completion_window in gateway.settings.completion_windows else None
    return start_batch(
        gateway, principal, file, endpoint=before.endpoint or "", window=window, metadata=before.metadata
    )


def _remove(gateway: Gateway, file: FileRecord) -> None:
    """Remove a file without a batch. It asks the records alone: the API server may be what failed."""
    try:
        if not _has_batch(gateway, file):
            remove_unread(gateway, file)
    except (ApiError, StorageError, RecordNotDeleted) as error:
        logger.warning("%s stays, though no batch was made of it: %s", file.id, error)


def _has_batch(gateway: Gateway, file: FileRecord) -> bool:
    """Whether a batch reads it after all: a failure may have come once the record was written."""
    made = ids.created_at(file.id)  # in whole milliseconds, as a batch's own time is
    since = takewhile(lambda stored: stored.record.created_at >= made, gateway.batches.list(file.namespace))
    return any(stored.record.input_file_id == file.id for stored in since)


def _copied(gateway: Gateway, user: str, before: BatchRecord, model: str | None) -> FileRecord:
    """A file of the lines to retry. Its key is computed, never read from the BatchJob."""
    folder = gateway.tenant(before.namespace)
    source = folder.key(f"{ids.batchjob_name(before.id)}/{names.RETRY_OBJECT}")
    now = gateway.clock()
    file_id = ids.new_file_id(now)
    try:
        info = folder.store.head(source)
        written = folder.store.join(folder.key(file_id), [ObjectRange(source, 0, info.size, info.etag)])
    except NotFound as error:
        message = "The lines that failed are no longer there: they were deleted, or have expired."
        raise ApiError(HTTPStatus.CONFLICT, message) from error
    first = gateway.files.get(before.namespace, before.input_file_id) if before.input_file_id else None
    record = FileRecord(
        id=file_id,
        namespace=before.namespace,
        key=file_id,
        bytes=written.size,
        created_at=now,
        filename=retry_name(first.record.filename if first else before.id),
        purpose=BATCH,
        etag=written.etag,
        user=user,
        model=model,
    )
    try:
        return gateway.files.create(record.namespace, record.id, record).record
    except BaseException:
        drop_unanswered(gateway, before.namespace, file_id)
        raise


def retry_name(name: str) -> str:
    """Name of the file of what failed of another: a.jsonl, a.retry.jsonl, a.retry-2.jsonl. Pure."""
    stem = name.removesuffix(".jsonl")
    base, marked, number = stem.rpartition(".retry")
    if marked and not number:
        ending = ".retry-2.jsonl"
    elif marked and number[0] == "-" and number[1:].isascii() and number[1:].isdecimal():
        ending = f".retry-{int(number[1:]) + 1}.jsonl"
    else:
        base, ending = stem, ".retry.jsonl"
    return base[: _LONGEST_NAME - len(ending)] + ending
