"""Which files are read by a batch that has not ended: they stay until it has.

A batch has its record before anything else, and its BatchJob perhaps later. So records are asked, and BatchJobs as
well: one whose end was long overdue, or whose record is lost, still reads its input.
"""

from collections.abc import Iterator
from typing import Any

from batchwright.api import names
from batchwright.api.conditions import TERMINAL_PHASES
from batchwright.gateway.batches.active import without_ending
from batchwright.gateway.batches.current import current_of_many
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.file_record import FileRecord, keys_of
from batchwright.gateway.records.record_store import Stored

Inputs = frozenset[str]
"""What is read, by the id of a file and by its URI: one by path names it by its URI alone."""


def live_reader(gateway: Gateway, file: FileRecord) -> str | None:
    """The id of a batch, of either face, that reads a file and has not ended. Raises StorageError, KubernetesError."""
    inputs = inputs_of(gateway, file)
    for stored, state in current_of_many(gateway, list(_reading(gateway, file.namespace, inputs))):
        if not state.ended:
            return stored.record.id
    return next((batch for batch, read in _live_batchjobs(gateway, file.namespace) if read & inputs), None)


def recorded_reader(gateway: Gateway, file: FileRecord) -> str | None:
    """The same by the records alone, where one may be named that has just ended. Raises StorageError."""
    return next((stored.record.id for stored in _reading(gateway, file.namespace, inputs_of(gateway, file))), None)


def inputs_in_use(gateway: Gateway, namespace: str) -> Inputs:
    """What all of a tenant's batches read that have not ended. Raises StorageError, KubernetesError."""
    recorded = [_of_record(stored.record) for stored in without_ending(gateway, namespace)]
    return frozenset().union(*recorded, *(read for _, read in _live_batchjobs(gateway, namespace)))


def inputs_of(gateway: Gateway, file: FileRecord) -> Inputs:
    """A file as batches name it."""
    folder = gateway.tenant(file.namespace)
    return frozenset({file.id, *(f"{folder.uri}{key}" for key in keys_of(file))})


def _reading(gateway: Gateway, namespace: str, inputs: Inputs) -> Iterator[Stored[BatchRecord]]:
    return (stored for stored in without_ending(gateway, namespace) if _of_record(stored.record) & inputs)


def _of_record(record: BatchRecord) -> Inputs:
    return _named(record.input_file_id, (record.spec.get("input") or {}).get("uri"))


def _live_batchjobs(gateway: Gateway, namespace: str) -> Iterator[tuple[str, Inputs]]:
    for batchjob in gateway.batchjobs.list(namespace, names.LABEL_GATEWAY):
        if not _has_ended(batchjob):
            annotations = batchjob["metadata"].get("annotations") or {}
            source = ((batchjob.get("spec") or {}).get("input") or {}).get("uri")
            batch = annotations.get(names.ANNOTATION_BATCH_ID) or batchjob["metadata"]["name"]
            yield str(batch), _named(annotations.get(names.ANNOTATION_INPUT_FILE_ID), source)


def _has_ended(batchjob: dict[str, Any]) -> bool:
    return (batchjob.get("status") or {}).get("phase") in TERMINAL_PHASES


def _named(file_id: str | None, uri: str | None) -> Inputs:
    return frozenset(name for name in (file_id, uri) if name)
