"""Batches that the page makes: of an upload, and of the lines of another batch that failed. Methods block."""

from http import HTTPStatus
from typing import Final

from batchwright.api import names
from batchwright.api.duration import parse_duration
from batchwright.gateway import errors, ids
from batchwright.gateway.batches.batchjob import spec_of
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.deletion import delete_file
from batchwright.gateway.models.choosing import choose
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord
from batchwright.gateway.records.file_record import BATCH, FileRecord
from batchwright.gateway.records.record_store import Stored
from batchwright.storage.errors import NotFound
from batchwright.storage.protocol import ObjectRange

_LONGEST_NAME: Final = 255


def start_batch(
    gateway: Gateway,
    principal: Principal,
    file: FileRecord,
    *,
    endpoint: str,
    window: str,
    metadata: dict[str, str] | None = None,
) -> BatchRecord:
    """Make a batch of a file that was made for it. Where that is refused, the file goes again.

    Raises:
        ApiError: an endpoint or window that isn't offered, a model that isn't served, too many batches.
    """
    try:
        record = _record(gateway, principal.user, file, endpoint=endpoint, window=window, metadata=metadata)
        return make_batch(gateway, record)
    except ApiError:
        stored = gateway.files.get(file.namespace, file.id)
        if stored is not None:
            delete_file(gateway, stored)
        raise


def retry_failed(gateway: Gateway, principal: Principal, stored: Stored[BatchRecord]) -> BatchRecord:
    """Make a batch of the lines of another one that have no answer. They are copied into a file of its own.

    Raises:
        ApiError: 409 where there are none, or the batch hasn't ended; and as `start_batch` does.
    """
    before = stored.record
    endpoint = before.endpoint or (before.ending.state.endpoint if before.ending else None)
    if before.ending is None or before.face != OPENAI or not before.ending.state.published.retry_bytes or not endpoint:
        raise errors.conflict("There are no lines to retry: the batch has not ended, or none of its lines failed.")
    file = _copied(gateway, principal, before)
    return start_batch(
        gateway, principal, file, endpoint=endpoint, window=before.completion_window, metadata=before.metadata
    )


def _record(
    gateway: Gateway, user: str, file: FileRecord, *, endpoint: str, window: str, metadata: dict[str, str] | None
) -> BatchRecord:
    settings = gateway.settings
    if window not in settings.completion_windows:
        raise errors.not_one_of("completion_window", window, settings.completion_windows)
    choice = choose(gateway, model=file.model, endpoint=endpoint)
    if endpoint not in choice.endpoints:
        raise errors.not_one_of("endpoint", endpoint, choice.endpoints)
    now = gateway.clock()
    folder = gateway.tenant(file.namespace)
    return BatchRecord(
        id=ids.new_batch_id(now),
        namespace=file.namespace,
        user=user,
        face=OPENAI,
        created_at=now,
        expires_at=now + parse_duration(window),
        completion_window=window,
        endpoint=endpoint,
        spec=spec_of(
            settings,
            file.namespace,
            face=OPENAI,
            endpoint=endpoint,
            input_uri=folder.store.uri(folder.key(file.key)),
            output_uri=folder.uri,
            server=choice.server,
            completion_window=window,
            metadata=metadata,
        ),
        input_file_id=file.id,
        metadata=metadata,
    )


def _copied(gateway: Gateway, principal: Principal, before: BatchRecord) -> FileRecord:
    """A file of the lines to retry. Its key is computed, never read from the BatchJob."""
    folder = gateway.tenant(before.namespace)
    source = folder.key(f"{ids.batchjob_name(before.id)}/{names.RETRY_OBJECT}")
    now = gateway.clock()
    file_id = ids.new_file_id(now)
    try:
        info = folder.store.head(source)
        written = folder.store.join(folder.key(file_id), [ObjectRange(source, 0, info.size, info.etag)])
    except NotFound as error:
        raise ApiError(
            HTTPStatus.CONFLICT, "The lines that failed are no longer there: they were deleted or have expired."
        ) from error
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
        user=principal.user,
        model=before.ending.state.model if before.ending else None,
    )
    try:
        return gateway.files.create(record.namespace, record.id, record).record
    except BaseException:
        folder.store.delete([folder.key(file_id)])
        raise


def retry_name(name: str) -> str:
    """Name of the file of what failed of another: a.jsonl → a.retry.jsonl → a.retry-2.jsonl. Pure."""
    stem = name.removesuffix(".jsonl")
    base, marked, number = stem.rpartition(".retry")
    if marked and number == "":
        ending = ".retry-2.jsonl"
    elif marked and number[:1] == "-" and number[1:].isascii() and number[1:].isdecimal():
        ending = f".retry-{int(number[1:]) + 1}.jsonl"
    else:
        base, ending = stem, ".retry.jsonl"
    return base[: _LONGEST_NAME - len(ending)] + ending
