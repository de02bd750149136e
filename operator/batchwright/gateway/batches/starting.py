"""From a record to its BatchJob: the steps that making a batch and looking at one have in common."""

import logging

import msgspec

from batchwright.gateway import ids
from batchwright.gateway.batches.batchjob import manifest_of
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.record_store import Changed, Stored
from batchwright.kube.connection import RawObject
from batchwright.kube.errors import AlreadyExists, KubernetesError, NotFound, Unavailable, is_verdict
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)


def create_batchjob(gateway: Gateway, record: BatchRecord) -> RawObject:
    """The BatchJob of a record, created, or found where somebody was faster. Raises KubernetesError."""
    try:
        return gateway.batchjobs.create(record.namespace, manifest_of(record))
    except AlreadyExists:
        return gateway.batchjobs.get(record.namespace, ids.batchjob_name(record.id))


def is_refusal(error: KubernetesError, record: BatchRecord) -> bool:
    """Whether a creation failed for what a repetition won't change: quota, admission, no such namespace.

    While the resource itself isn't installed, as in an upgrade, the API server answers 404 too, without a name.
    """
    if isinstance(error, Unavailable):
        return False
    if isinstance(error, NotFound):
        return record.namespace in error.message
    return is_verdict(error, creating=True)


def note_uid(gateway: Gateway, stored: Stored[BatchRecord], batchjob: RawObject) -> Stored[BatchRecord]:
    """Note in the record that the BatchJob exists, so that its absence means from now on that it was deleted.

    A failure is logged: the next one who looks at the batch does it.
    """
    record = stored.record
    if record.batchjob_uid is not None:
        return stored
    noted = msgspec.structs.replace(record, batchjob_uid=str(batchjob["metadata"]["uid"]))
    try:
        return gateway.batches.replace(record.namespace, record.id, stored, noted)
    except Changed:
        return gateway.batches.get(record.namespace, record.id) or stored
    except StorageError as error:
        logger.warning("can't note yet that the BatchJob of %s exists: %s", record.id, error)
        return stored
