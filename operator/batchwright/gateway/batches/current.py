"""Where batches stand now. Whoever asks also does what is due: creates a BatchJob that is missing, archives one that
has ended.
"""

import logging
from collections.abc import Sequence
from typing import Final

from batchwright.api import names
from batchwright.gateway import ids
from batchwright.gateway.batches.archive import archive
from batchwright.gateway.batches.batchjob import cancelling
from batchwright.gateway.batches.recovery import end_without_batchjob
from batchwright.gateway.batches.rendering import deleted_state, failed_state, state_of, unpublished
from batchwright.gateway.batches.starting import create_batchjob, end_unstarted, log_failure, note_uid, read_batchjob
from batchwright.gateway.batches.verdict import Verdict, verdict_on
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchError, BatchRecord, BatchState
from batchwright.gateway.records.record_store import Stored, Unreadable
from batchwright.kube.connection import RawObject
from batchwright.kube.errors import KubernetesError, NotFound
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

Current = tuple[Stored[BatchRecord], BatchState]
_FEW: Final = 2
"""So many BatchJobs are read one by one: a list has all that were kept after their end, too."""


def current(gateway: Gateway, stored: Stored[BatchRecord]) -> Current:
    """Where a batch stands. One call of the Kubernetes API while it runs, none once it has ended.

    Raises KubernetesError.
    """
    if stored.record.ending is not None:
        return stored, stored.record.ending.state
    return settle(gateway, stored, read_batchjob(gateway, stored.record))


def current_of_many(gateway: Gateway, many: Sequence[Stored[BatchRecord]]) -> list[Current]:
    """Where batches stand, in their order, with one call for a namespace and face. Raises KubernetesError."""
    running = [stored.record for stored in many if stored.record.ending is None]
    known: dict[tuple[str, str], RawObject] = {}
    for place in {(record.namespace, record.face) for record in running}:
        if sum((record.namespace, record.face) == place for record in running) > _FEW:
            known |= _listed(gateway, *place)
    return [_current_of(gateway, stored, known) for stored in many]


def settle(gateway: Gateway, stored: Stored[BatchRecord], batchjob: RawObject | None) -> Current:
    """Where a batch without an ending stands by its BatchJob, once what is due is done.

    What is due and fails is logged, and done by the next one who looks.
    """
    if batchjob is None:
        return _begun(gateway, stored) if stored.record.batchjob_uid is None else _gone(gateway, stored)
    stored = note_uid(gateway, stored, batchjob)
    if stored.record.ending is not None:
        return stored, stored.record.ending.state
    state = state_of(stored.record, batchjob)
    if state.ended:
        return _ended(gateway, stored, state, batchjob)
    if stored.record.cancelling_at is not None and (batchjob.get("spec") or {}).get("cancel") is not True:
        try:
            return tell_of_cancel(gateway, stored)
        except KubernetesError as error:
            logger.warning("the BatchJob of %s can't be told of its cancel yet: %s", stored.record.id, error)
    return stored, state


def tell_of_cancel(gateway: Gateway, stored: Stored[BatchRecord]) -> Current:
    """Cancel the BatchJob of a batch whose record has a cancel. Raises KubernetesError."""
    record = stored.record
    try:
        batchjob = gateway.batchjobs.patch(record.namespace, ids.batchjob_name(record.id), cancelling(record))
    except NotFound:  # deleted, or not made yet
        return settle(gateway, stored, read_batchjob(gateway, record))
    state = state_of(record, batchjob)
    return _ended(gateway, stored, state, batchjob) if state.ended else (stored, state)


def _begun(gateway: Gateway, stored: Stored[BatchRecord]) -> Current:
    """Create the BatchJob that a crash, or an API server that was away, kept from being created."""
    record = stored.record
    try:
        batchjob = create_batchjob(gateway, record)
    except KubernetesError as error:
        verdict = verdict_on(error, record)
        if verdict is Verdict.REFUSED:
            return _refused(gateway, stored, error)
        log_failure(error, verdict, record)
        return stored, state_of(record, {})
    return settle(gateway, stored, batchjob)


def _refused(gateway: Gateway, stored: Stored[BatchRecord], error: KubernetesError) -> Current:
    refusal = BatchError("cluster_refused", f"The cluster refuses the batch: {error.message}")
    try:
        stored = end_unstarted(gateway, stored, failed_state(stored.record, gateway.clock(), refusal))
    except (StorageError, KubernetesError) as failure:
        logger.warning("%s is refused, and its end can't be written yet: %s", stored.record.id, failure)
    ending = stored.record.ending
    return stored, ending.state if ending is not None else state_of(stored.record, {})


def _gone(gateway: Gateway, stored: Stored[BatchRecord]) -> Current:
    """A person has deleted the BatchJob, or its namespace."""
    try:
        state = end_without_batchjob(gateway, stored.record)
    except StorageError as error:
        logger.warning("what %s left behind can't be read yet: %s", stored.record.id, error)
        return stored, unpublished(deleted_state(stored.record, gateway.clock()))
    return _ended(gateway, stored, state, None)


def _ended(gateway: Gateway, stored: Stored[BatchRecord], state: BatchState, batchjob: RawObject | None) -> Current:
    """Archived, or shown as not quite over while the storage is away, or a record of its files is damaged."""
    try:
        archived = archive(gateway, stored, state, batchjob)
    except (StorageError, Unreadable) as error:
        logger.warning("%s has ended and can't be archived yet: %s", stored.record.id, error)
        return stored, unpublished(state)
    ending = archived.record.ending
    assert ending is not None, "archived"
    return archived, ending.state


def _listed(gateway: Gateway, namespace: str, face: str) -> dict[tuple[str, str], RawObject]:
    found = gateway.batchjobs.list(namespace, f"{names.LABEL_GATEWAY}={face}")
    return {(namespace, batchjob["metadata"]["name"]): batchjob for batchjob in found}


def _current_of(gateway: Gateway, stored: Stored[BatchRecord], known: dict[tuple[str, str], RawObject]) -> Current:
    record = stored.record
    batchjob = known.get((record.namespace, ids.batchjob_name(record.id)))
    # What a list doesn't have is asked for by name before it counts as deleted: a label may be gone.
    return settle(gateway, stored, batchjob) if record.ending is None and batchjob else current(gateway, stored)
