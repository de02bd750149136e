"""How many batches a tenant has that have not ended."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Final

from batchwright.api.duration import parse_duration
from batchwright.gateway import errors
from batchwright.gateway.batches.current import current_of_many
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.record_store import Stored

_RETRY_SECONDS: Final = 30.0
_TIME_TO_END: Final = timedelta(days=1)
"""What a batch may take after its window to be stopped and published."""


def check_active(gateway: Gateway, record: BatchRecord) -> None:
    """Raises ApiError (429) where the tenant of a new batch has as many as it may have.

    Storage has no lock over several records: of batches that are made in the same instant one too many may pass.
    """
    limit = gateway.settings.tenant_limits(record.namespace).active_batches
    if limit is None or not _is_reached(gateway, record, limit):
        return
    raise errors.too_many_requests(
        f"There are {limit} active batches, as many as are allowed at once. Wait until one has ended, or cancel one.",
        _RETRY_SECONDS,
        code="too_many_active_batches",
    )


def _is_reached(gateway: Gateway, record: BatchRecord, limit: int) -> bool:
    """Batches that have ended, which nobody has looked at since, are looked at before anybody is refused."""
    without_ending = list(islice(_others(gateway, record), limit))
    if len(without_ending) < limit:
        return False
    working = sum(not state.ended for _, state in current_of_many(gateway, without_ending))
    return working >= limit or sum(1 for _ in islice(_others(gateway, record), limit)) >= limit


def without_ending(gateway: Gateway, namespace: str) -> Iterator[Stored[BatchRecord]]:
    """A tenant's batches whose records have no ending, the newest first; old ones have all ended."""
    windows = [parse_duration(window) for window in gateway.settings.completion_windows]
    oldest = gateway.clock() - max(windows) - _TIME_TO_END
    for stored in gateway.batches.list(namespace):
        if stored.record.created_at < oldest:
            return
        if stored.record.ending is None:
            yield stored


def _others(gateway: Gateway, record: BatchRecord) -> Iterator[Stored[BatchRecord]]:
    return (stored for stored in without_ending(gateway, record.namespace) if stored.record.id != record.id)
