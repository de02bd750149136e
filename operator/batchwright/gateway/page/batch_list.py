"""The batches of a page of the list, and the names that their inputs have. Methods block."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from batchwright.gateway.batches.listing import list_batches
from batchwright.gateway.context import Gateway
from batchwright.gateway.ids import is_file_id
from batchwright.gateway.page.batch_view import BatchView
from batchwright.gateway.principal import Principal
from batchwright.gateway.recent import RecentValues
from batchwright.gateway.records.batch_record import BatchRecord, BatchState
from batchwright.gateway.records.record_store import Stored, Unreadable

PAGE: Final = 20
_KEPT_NAMES: Final = 10_000
_READERS: Final = 8


@dataclass(frozen=True, slots=True)
class ListedBatches:
    """One page."""

    views: Sequence[BatchView]
    next_after: str | None
    """Id after which the next page begins; None on the last one."""


class Views:
    """Makes views of records."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._names: RecentValues[tuple[str, str], tuple[str | None]] = RecentValues(_KEPT_NAMES)

    def listed(self, principal: Principal, after: str | None) -> ListedBatches:
        """A page of the batches that somebody may see, of both faces, the newest first."""
        page = list_batches(self._gateway, principal, limit=PAGE, after=after)
        self._learn_names([stored.record for stored, _ in page.batches])
        views = [self.view(stored, state) for stored, state in page.batches]
        return ListedBatches(views, views[-1].id if page.has_more else None)

    def view(self, stored: Stored[BatchRecord], state: BatchState) -> BatchView:
        """One batch."""
        return BatchView(stored.record, state, self._title(stored.record), self._gateway.clock())

    def input_name(self, record: BatchRecord) -> str | None:
        """Name of a batch's input file; None where there is none any more, or its record can't be read. Kept, since a
        file keeps its name.
        """
        place = _input_of(record)
        if place is None:
            return None
        kept = self._names.get(place)
        if kept is None:
            try:
                stored = self._gateway.files.get(*place)
            except Unreadable:  # lists of files log it; that of batches goes on without the name
                return None
            kept = (stored.record.filename if stored else None,)
            self._names.put(place, kept)
        return kept[0]

    def _learn_names(self, records: Iterable[BatchRecord]) -> None:
        """Read the names of inputs that aren't kept yet, some of them at once."""
        unknown = [record for record in records if (place := _input_of(record)) and self._names.get(place) is None]
        if unknown:
            with ThreadPoolExecutor(_READERS) as readers:
                list(readers.map(self.input_name, unknown))

    def _title(self, record: BatchRecord) -> str:
        if record.path_request is not None:
            return record.path_request.input_file.rstrip("/").rpartition("/")[2] or record.id
        return self.input_name(record) or record.id


def _input_of(record: BatchRecord) -> tuple[str, str] | None:
    """Namespace and id of a batch's input file; None where it was made by path."""
    if record.input_file_id is None or not is_file_id(record.input_file_id):
        return None
    return record.namespace, record.input_file_id
