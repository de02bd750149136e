"""What of the records somebody may see: their tenant's; an administrator who named no namespace sees all."""

from collections.abc import Generator

from batchwright.gateway.principal import Principal
from batchwright.gateway.records.record_store import R, RecordStore, Stored


def visible_records(
    store: RecordStore[R], principal: Principal, *, after: str | None = None, oldest_first: bool = False
) -> Generator[Stored[R], None, None]:
    """The records, the newest first, those after an id. As `RecordStore.list` reads them."""
    if principal.namespace is not None:
        yield from store.list(principal.namespace, after=after, oldest_first=oldest_first)
    elif principal.admin:
        yield from store.list_all(after=after, oldest_first=oldest_first)


def visible_record(store: RecordStore[R], principal: Principal, identity: str) -> Stored[R] | None:
    """One record; None where there is none, or it is another tenant's."""
    if principal.namespace is not None:
        return store.get(principal.namespace, identity)
    return store.find(identity) if principal.admin else None
