"""Pages of batches, the newest first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from batchwright.gateway import errors, ids
from batchwright.gateway.batches.current import Current, current_of_many
from batchwright.gateway.context import Gateway
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import BatchRecord, Face, Status
from batchwright.gateway.records.record_store import Stored
from batchwright.gateway.records.visible import visible_records

_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class BatchPage:
    """Some batches, and whether there are more."""

    batches: list[Current]
    has_more: bool


def list_batches(
    gateway: Gateway,
    principal: Principal,
    *,
    limit: int,
    after: str | None = None,
    status: Status | None = None,
    face: Face | None = None,
) -> BatchPage:
    """A page of what the principal may see: an administrator without a namespace sees the batches of all.

    after: id of the last batch of the page before. It need not be there any more: those that come after it follow.
    status: only those in it now; the page is filled with them
    face: only those that came by it

    Raises:
        ApiError: 404 for an `after` that is no batch's id.
        KubernetesError, StorageError: as `current_of_many` does.
    """
    if after is not None and not ids.is_batch_id(after):
        raise errors.no_such_batch(after)
    visible = visible_records(gateway.batches, principal, after=after)
    records = (stored for stored in visible if face in (None, stored.record.face))
    # One more than asked for tells whether there are more.
    found = list(islice(_in_status(gateway, records, status, limit + 1), limit + 1))
    return BatchPage(found[:limit], len(found) > limit)


def _in_status(
    gateway: Gateway, records: Iterable[Stored[BatchRecord]], status: Status | None, wanted: int
) -> Iterator[Current]:
    rest = iter(records)
    size = wanted if status is None else max(wanted, _CHUNK)
    while some := list(islice(rest, size)):
        if status is not None:
            some = [stored for stored in some if _may_be(stored.record, status)]
        yield from (now for now in current_of_many(gateway, some) if status in (None, now[1].status))


def _may_be(record: BatchRecord, status: Status) -> bool:
    """What has an ending stays as it is, and needs no look at its BatchJob."""
    return record.ending is None or record.ending.state.status == status
