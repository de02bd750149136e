"""The end of a batch: what it published become files, and its last state goes into the record.

From then on it needs no BatchJob. Anybody who meets a batch whose BatchJob has ended does this, several at once
perhaps: ids follow from the batch, files come before the ending, and the first ending that is written stays. Keys are
computed from the batch's id and never read from the BatchJob, which its tenant may have written.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from batchwright.api import names
from batchwright.batchfile.layout import OutputLayout
from batchwright.batchfile.undecodable import UNDECODABLE
from batchwright.gateway import errors, ids
from batchwright.gateway.batches.rendering import LISTED_ERRORS, ended_at, listed_errors, read_status
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import (
    OPENAI,
    BatchError,
    BatchRecord,
    BatchState,
    Ending,
    Published,
)
from batchwright.gateway.records.file_record import BATCH_OUTPUT, FileRecord
from batchwright.gateway.records.record_store import Changed, Exists, Stored
from batchwright.kube.connection import RawObject
from batchwright.storage.errors import BucketMissing, NotFound
from batchwright.storage.protocol import ObjectInfo

logger = logging.getLogger(__name__)

_ERRORS_BYTES: Final = 1 << 20
"""So much of the errors of an input is read: a hundred of them are less."""
_TRIES: Final = 3
_FILE_NAMES: Final[dict[ids.Published, str]] = {"output": "output", "errors": "error"}


def archive(
    gateway: Gateway, stored: Stored[BatchRecord], state: BatchState, batchjob: RawObject | None
) -> Stored[BatchRecord]:
    """Give a batch the ending of a terminal state.

    batchjob: None where it is gone or there never was one

    Returns:
        The record with its ending: this one, or that of somebody who was faster.

    Raises:
        StorageError: it couldn't be written; later, then.
        ApiError: 503, others keep changing it.
    """
    record = stored.record
    if batchjob is not None and (count := read_status(batchjob).validation_error_count):
        state = msgspec.structs.replace(state, errors=_validation_errors(gateway, record, state, count))
        return _end(gateway, stored, Ending(state))
    if record.face != OPENAI or not record.spec:
        return _end(gateway, stored, Ending(state))
    output, failed, retry = (
        _head(gateway, record, name) for name in (names.RESULTS_OBJECT, names.ERRORS_OBJECT, names.RETRY_OBJECT)
    )
    state = msgspec.structs.replace(
        state,
        published=Published(_size(output), _size(failed), _size(retry)),
    )
    # Of a deletion two archivers see different times: the files of such a batch sort by its creation.
    sorted_at = (ended_at(state) if batchjob is not None else None) or record.created_at
    file = _OutputFiles(gateway, record, ended_at(state) or gateway.clock(), sorted_at)
    return _end(gateway, stored, Ending(state, file.make("output", output), file.make("errors", failed)))


def _end(gateway: Gateway, stored: Stored[BatchRecord], ending: Ending) -> Stored[BatchRecord]:
    """Write the ending, unless there is one already."""
    record = stored.record
    for _ in range(_TRIES):
        ended = msgspec.structs.replace(stored.record, ending=ending)
        try:
            return gateway.batches.replace(record.namespace, record.id, stored, ended)
        except Changed:
            found = gateway.batches.get(record.namespace, record.id)
            if found is None:
                return Stored(ended, "")  # removed meanwhile: this is the last that is seen of it
            if found.record.ending is not None:
                return found
            stored = found
    raise errors.unavailable(f"The batch '{record.id}' is being changed by others. Try again.")


@dataclass(frozen=True, slots=True)
class _OutputFiles:
    """File records of what a batch published."""

    gateway: Gateway
    record: BatchRecord
    created_at: datetime
    sorted_at: datetime

    def make(self, kind: ids.Published, info: ObjectInfo | None) -> str | None:
        """The file's id; None where nothing was published."""
        if info is None or not info.size:
            return None
        record, keep = self.record, self.record.output_expires_after
        name = names.RESULTS_OBJECT if kind == "output" else names.ERRORS_OBJECT
        file = FileRecord(
            id=ids.output_file_id(record.id, kind, self.sorted_at),
            namespace=record.namespace,
            key=f"{ids.batchjob_name(record.id)}/{name}",
            bytes=info.size,
            created_at=self.created_at,
            filename=f"{record.id}_{_FILE_NAMES[kind]}.jsonl",
            purpose=BATCH_OUTPUT,
            etag=info.etag,
            user=record.user,
            expires_at=self.created_at + timedelta(seconds=keep) if keep is not None else None,
            batch_id=record.id,
        )
        try:
            self.gateway.files.create(record.namespace, file.id, file)
        except Exists:
            logger.info("%s is a file already", file.id)
        return file.id


def _head(gateway: Gateway, record: BatchRecord, name: str) -> ObjectInfo | None:
    folder = gateway.tenant(record.namespace)
    try:
        return folder.store.head(folder.key(f"{ids.batchjob_name(record.id)}/{name}"))
    except (NotFound, BucketMissing):  # of a tenant who has no folder yet, nothing was published
        return None


def _size(info: ObjectInfo | None) -> int | None:
    return info.size if info is not None and info.size else None


def _validation_errors(gateway: Gateway, record: BatchRecord, state: BatchState, count: int) -> tuple[BatchError, ...]:
    """The errors of an input as the worker wrote them: the status may have had room for fewer."""
    in_status = sum(error.line is not None for error in state.errors)
    if record.face != OPENAI or in_status >= min(count, LISTED_ERRORS):
        return state.errors
    try:
        written = list(_written_errors(gateway, record))
    except (NotFound, BucketMissing):
        written = []
    return listed_errors(written, count) if len(written) > in_status else state.errors


def _written_errors(gateway: Gateway, record: BatchRecord) -> Iterator[BatchError]:
    folder = gateway.tenant(record.namespace)
    key = OutputLayout(folder.key(f"{ids.batchjob_name(record.id)}/")).validation_errors
    text = b"".join(folder.store.stream(key, end=_ERRORS_BYTES))
    for line in text.split(b"\n")[:LISTED_ERRORS]:
        try:
            yield msgspec.json.decode(line, type=BatchError)
        except UNDECODABLE:  # the last one is cut, or a tenant wrote it
            return
