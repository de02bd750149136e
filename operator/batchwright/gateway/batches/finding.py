"""One batch by its id."""

from batchwright.gateway import errors, ids
from batchwright.gateway.context import Gateway
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import BatchRecord, Face
from batchwright.gateway.records.record_store import Stored
from batchwright.gateway.records.visible import visible_record


def find_batch(
    gateway: Gateway, principal: Principal, batch_id: str, *, face: Face | None = None
) -> Stored[BatchRecord]:
    """A batch that the principal may see; of one face alone, or of any.

    Raises:
        ApiError: 404. There is none, it is another tenant's, or it came by another face: nobody learns which.
    """
    found = visible_record(gateway.batches, principal, batch_id) if ids.is_batch_id(batch_id) else None
    if found is None or face not in (None, found.record.face):
        raise errors.no_such_batch(batch_id)
    return found
