"""When records have to be looked at, so that a round needs to read only those that are new or whose time has come."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Generic

from batchwright.gateway.records.batch_record import BatchRecord, Times
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import Entry, R, Stored

logger = logging.getLogger(__name__)

ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
"""In each round."""
When = datetime | None
"""None: never."""


def file_is_due(record: FileRecord) -> When:
    """A file that expires, then."""
    return record.expires_at


def batch_is_due(record: BatchRecord, keep: timedelta | None) -> When:
    """A batch that has not ended, always, since its BatchJob may have; one that has, when it has been kept for so long
    after its end.
    """
    if record.ending is None:
        return ALWAYS
    return None if keep is None else ended_at(record) + keep


def ended_at(record: BatchRecord) -> datetime:
    """When a batch ended; its creation where nobody wrote that down."""
    assert record.ending is not None, "only of a batch that has ended"
    times: Times = record.ending.state.times
    found = [times.completed_at, times.failed_at, times.expired_at, times.cancelled_at]
    return max((moment for moment in found if moment is not None), default=record.created_at)


@dataclass(frozen=True, slots=True)
class _Known:
    etag: str
    due: When


class Schedule(Generic[R]):
    """What is known of the records of one kind, from one round to the next. Rebuilt by reading where it is lost."""

    def __init__(self, read: Callable[[str, str], Stored[R] | None], when: Callable[[R], When]) -> None:
        """read: a record by its namespace and id. when: when it has to be looked at."""
        self._read = read
        self._when = when
        self._known: dict[tuple[str, str], _Known] = {}

    def due(self, listed: Iterable[Entry], now: datetime) -> Iterator[Stored[R]]:
        """Those of the records there are that have to be looked at now. One that is new or changed is read once, one
        whose time has not come is not read again.
        """
        before, self._known = self._known, {}
        for entry in listed:
            place = (entry.namespace, entry.identity)
            known, stored = before.get(place), None
            if known is None or known.etag != entry.etag:
                stored, known = self._look(place)
                if known is None:
                    continue
            self._known[place] = known
            if known.due is not None and known.due <= now:
                if stored is None:
                    stored, _ = self._look(place)
                if stored is not None:
                    yield stored

    def _look(self, place: tuple[str, str]) -> tuple[Stored[R], _Known] | tuple[None, None]:
        """A record and what to remember of it; nothing where it was deleted since it was listed, or can't be read."""
        try:
            stored = self._read(*place)
            return (None, None) if stored is None else (stored, _Known(stored.etag, self._when(stored.record)))
        except (ValueError, OverflowError):
            # Of another version of the gateway, or damaged. The others have their turn all the same.
            logger.exception("the record %s of %s can't be read", *reversed(place))
            return None, None
