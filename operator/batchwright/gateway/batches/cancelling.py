"""Cancelling a batch. The record is told first, then the BatchJob: a cancel that was accepted holds."""

import msgspec

from batchwright.gateway import errors
from batchwright.gateway.batches.current import Current, current, tell_of_cancel
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.records.batch_record import BatchRecord, BatchState
from batchwright.gateway.records.record_store import Changed, Stored

_TRIES = 3


def cancel(gateway: Gateway, stored: Stored[BatchRecord]) -> Current:
    """Cancel a batch. One that is being cancelled, or was, stays as it is.

    A cancel wins over a finish that has not been published; then the counts are those of what was done.

    Raises:
        ApiError: 409 where the batch has ended otherwise.
        KubernetesError: the BatchJob isn't told yet; whoever looks at the batch next does that.
        StorageError: the cancel couldn't be noted.
    """
    for _ in range(_TRIES):
        stored, state = current(gateway, stored)
        if state.status in ("cancelling", "cancelled"):
            return stored, state
        if state.ended or stored.record.ending is not None:
            raise _has_ended(state)
        asked = msgspec.structs.replace(stored.record, cancelling_at=gateway.clock())
        try:
            stored = gateway.batches.replace(asked.namespace, asked.id, stored, asked)
        except Changed:
            stored = _again(gateway, asked)
            continue
        return _told(tell_of_cancel(gateway, stored))
    raise errors.unavailable("The batch is being changed by others. Try again.")


def _again(gateway: Gateway, record: BatchRecord) -> Stored[BatchRecord]:
    found = gateway.batches.get(record.namespace, record.id)
    if found is None:
        raise errors.no_such_batch(record.id)
    return found


def _told(now: Current) -> Current:
    """It may have ended at the very moment."""
    if now[1].ended and now[1].status != "cancelled":
        raise _has_ended(now[1])
    return now


def _has_ended(state: BatchState) -> ApiError:
    return errors.conflict(f"Cannot cancel a batch with status '{state.status}'.")
