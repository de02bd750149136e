"""Making a batch: its record, then its BatchJob.

The record is the intent. Once it is written the batch exists, whatever else fails: whoever looks at a record without a
BatchJob creates it. So a client is told of a success even where the Kubernetes API is away for the moment; told of a
failure it would try again, and there would be two batches.
"""

import logging
from http import HTTPStatus

from batchwright.gateway import errors
from batchwright.gateway.batches.active import check_active
from batchwright.gateway.batches.rendering import failed_state
from batchwright.gateway.batches.starting import (
    create_batchjob,
    end_unstarted,
    ended_unstarted,
    log_failure,
    note_uid,
)
from batchwright.gateway.batches.verdict import Verdict, verdict_on
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.finding import is_expired
from batchwright.gateway.records.batch_record import BatchError, BatchRecord
from batchwright.gateway.records.record_store import Exists, RecordNotDeleted, Stored, Unreadable
from batchwright.kube.errors import KubernetesError
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)


def make_batch(gateway: Gateway, record: BatchRecord) -> BatchRecord:
    """Write a batch's record and create its BatchJob. A record with an ending gets no BatchJob.

    A second time for the same id it goes on where the first one stopped.

    Raises:
        ApiError: 429 where the tenant has too many active batches; 400 with the cluster's message where it refuses the
            BatchJob (quota, admission, no such namespace), and 503 where the gateway isn't set up to create any: the
            record is removed again then.
        StorageError: the record couldn't be written.
    """
    if record.ending is None:
        check_active(gateway, record)
    stored = _write(gateway, record)
    if stored.record.ending is not None or stored.record.batchjob_uid is not None:
        return stored.record
    if (failed := _failed_without_input(gateway, stored)) is not None:
        return failed
    try:
        batchjob = create_batchjob(gateway, stored.record)
    except KubernetesError as error:
        verdict = verdict_on(error, stored.record)
        if verdict is not Verdict.REFUSED:
            log_failure(error, verdict, stored.record)
        if verdict is Verdict.LATER:
            return stored.record
        return _withdraw(gateway, stored, _answer(error, verdict))
    now = note_uid(gateway, stored, batchjob).record
    if ended_unstarted(now):
        raise errors.unavailable("The cluster refused this batch at the same moment. Try again.")
    return now


def missing_input(file_id: str) -> BatchError:
    """What is wrong with a batch whose input file isn't there."""
    return BatchError("invalid_request", f"Cannot find file {errors.shown_id(file_id)}.", "file_id")


def _failed_without_input(gateway: Gateway, stored: Stored[BatchRecord]) -> BatchRecord | None:
    """The batch, failed, where its file was deleted while its record was written; else None.

    A deletion looks for records once nobody finds the file any more, so that one of both sees the other.
    """
    record = stored.record
    if record.input_file_id is None:
        return None
    try:
        file = gateway.files.get(record.namespace, record.input_file_id)
        if file is not None and not is_expired(file.record, gateway.clock()):
            return None
        state = failed_state(record, gateway.clock(), missing_input(record.input_file_id))
        return end_unstarted(gateway, stored, state).record
    except (StorageError, KubernetesError, Unreadable) as error:
        # The batch exists by now: its workers say whether the file is there.
        logger.warning("the input of %s can't be looked for: %s", record.id, error)
        return None


def _write(gateway: Gateway, record: BatchRecord) -> Stored[BatchRecord]:
    try:
        return gateway.batches.create(record.namespace, record.id, record)
    except Exists:
        found = gateway.batches.get(record.namespace, record.id)
        if found is None:
            raise
        return found
    except StorageError:
        # It may be written all the same, with the answer lost: then the client must not be told to try again.
        found = gateway.batches.get(record.namespace, record.id)
        if found is None:
            raise
        return found


def _answer(error: KubernetesError, verdict: Verdict) -> ApiError:
    if verdict is Verdict.NOT_SET_UP:
        message = (
            "The gateway can't create BatchJobs in the cluster. An administrator finds in its log what is missing."
        )
        return errors.unavailable(message, errors.ADMINISTRATOR_SECONDS)
    return ApiError(HTTPStatus.BAD_REQUEST, f"The cluster refuses the batch: {error.message}", code="cluster_refused")


def _withdraw(gateway: Gateway, stored: Stored[BatchRecord], answer: ApiError) -> BatchRecord:
    """Remove the record of a batch that gets no BatchJob, and raise the answer.

    Where somebody else has made its BatchJob, or may yet make it, the batch stays, and the client hears of it.
    """
    record = stored.record
    failed = failed_state(record, gateway.clock(), BatchError(str(answer.code), answer.message))
    try:
        now = end_unstarted(gateway, stored, failed).record
    except (StorageError, KubernetesError) as error:
        logger.warning("%s is refused, and can't be withdrawn: %s; it is tried again", record.id, error)
        return record
    if not ended_unstarted(now):
        return now
    try:
        gateway.batches.delete(record.namespace, record.id)
    except (StorageError, RecordNotDeleted) as error:
        logger.warning("%s is refused, and stays in lists as failed: %s", record.id, error)
    raise answer
