"""From a record to its BatchJob: the steps that making a batch and looking at one have in common.

A batch may also end before it has a BatchJob: the cluster refuses it, or its input is gone. Another replica may be
creating the BatchJob from the same record at this very moment. One of the two wins. The ending is written over the
version that was read, so that it fails where the BatchJob is known to exist; and whoever has created a BatchJob and
finds the batch ended so deletes it again.
"""

import logging

import msgspec

from batchwright.gateway import ids
from batchwright.gateway.batches.batchjob import manifest_of
from batchwright.gateway.batches.rendering import failed_state
from batchwright.gateway.batches.verdict import Verdict, verdict_on
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchError, BatchRecord, BatchState, Ending
from batchwright.gateway.records.record_store import Changed, Stored
from batchwright.kube.connection import RawObject
from batchwright.kube.errors import AlreadyExists, Conflict, KubernetesError, NotFound, Unavailable
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)


def create_batchjob(gateway: Gateway, record: BatchRecord) -> RawObject:
    """The BatchJob of a record, created, or found where somebody was faster. Raises KubernetesError."""
    try:
        return gateway.batchjobs.create(record.namespace, manifest_of(record))
    except AlreadyExists:
        return gateway.batchjobs.get(record.namespace, ids.batchjob_name(record.id))


def read_batchjob(gateway: Gateway, record: BatchRecord) -> RawObject | None:
    """The BatchJob of a batch; None where there is none. Raises KubernetesError."""
    name = ids.batchjob_name(record.id)
    try:
        return gateway.batchjobs.get(record.namespace, name)
    except NotFound as error:
        if name in error.message:
            return None
        # Of what is not installed, as in an upgrade, the API server says nothing by name.
        raise Unavailable(error.message, status=error.status, reason=error.reason) from error


def log_failure(error: KubernetesError, verdict: Verdict, record: BatchRecord) -> None:
    """Say that a BatchJob can't be created yet, and what an administrator has to do where one has to."""
    if verdict is Verdict.NOT_SET_UP:
        logger.error(
            "the BatchJob of %s can't be created in %s: %s. Check the ClusterRole batchwright-gateway, its binding, and"
            " that the CustomResourceDefinition is this version's",
            record.id,
            record.namespace,
            error,
        )
    else:
        logger.warning("the BatchJob of %s can't be created yet: %s", record.id, error)


def note_uid(gateway: Gateway, stored: Stored[BatchRecord], batchjob: RawObject) -> Stored[BatchRecord]:
    """Note in the record that the BatchJob exists, so that its absence means from now on that it was deleted.

    A failure is logged: the next one who looks at the batch does it. Where the batch has ended without a BatchJob, or
    its record is gone, this one is deleted: nobody would ever hear of it.
    """
    record = stored.record
    if record.batchjob_uid is not None:
        return stored
    noted = msgspec.structs.replace(record, batchjob_uid=str(batchjob["metadata"]["uid"]))
    try:
        return gateway.batches.replace(record.namespace, record.id, stored, noted)
    except Changed:
        found = gateway.batches.get(record.namespace, record.id)
    except StorageError as error:
        logger.warning("can't note yet that the BatchJob of %s exists: %s", record.id, error)
        return stored
    if found is None or ended_unstarted(found.record):
        _delete_unseen(gateway, record, batchjob)
    return found or _withdrawn(gateway, record)


def end_unstarted(gateway: Gateway, stored: Stored[BatchRecord], state: BatchState) -> Stored[BatchRecord]:
    """Write the ending of a batch that gets no BatchJob, unless it has one already.

    Returns:
        The record as it is then: with this ending, or as others have changed it. `ended_unstarted` tells which.

    Raises:
        StorageError, KubernetesError: it isn't known whether it has ended; who looks at it next finds out.
    """
    record = stored.record
    batchjob = _readable_batchjob(gateway, record)
    if batchjob is not None:  # of a replica that was killed before it could note it
        return note_uid(gateway, stored, batchjob)
    ended = msgspec.structs.replace(record, ending=Ending(state, unstarted=True))
    try:
        return gateway.batches.replace(record.namespace, record.id, stored, ended)
    except Changed:
        return gateway.batches.get(record.namespace, record.id) or _withdrawn(gateway, record)


def ended_unstarted(record: BatchRecord) -> bool:
    """Whether a batch has ended before it had a BatchJob."""
    return record.ending is not None and record.ending.unstarted


def _readable_batchjob(gateway: Gateway, record: BatchRecord) -> RawObject | None:
    """None too where the gateway may not look, or the kind isn't installed: then it hasn't made one either."""
    try:
        return read_batchjob(gateway, record)
    except KubernetesError as error:
        if verdict_on(error, record) is Verdict.NOT_SET_UP:
            return None
        raise


def _withdrawn(gateway: Gateway, record: BatchRecord) -> Stored[BatchRecord]:
    """What is seen for the last time of a batch whose record is gone."""
    state = failed_state(record, gateway.clock(), BatchError("cluster_refused", "The cluster refused this batch."))
    return Stored(msgspec.structs.replace(record, ending=Ending(state, unstarted=True)), "")


def _delete_unseen(gateway: Gateway, record: BatchRecord, batchjob: RawObject) -> None:
    name = ids.batchjob_name(record.id)
    try:
        gateway.batchjobs.delete(record.namespace, name, str(batchjob["metadata"]["uid"]))
    except (NotFound, Conflict):
        return
    except KubernetesError as error:
        logger.error(  # noqa: TRY400  # a person reads it
            "BatchJob %s of %s runs for a batch that has failed, and can't be deleted: %s. Delete it with kubectl",
            name,
            record.namespace,
            error,
        )
