"""A tenant's files, page by page."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.files.finding import is_expired
from batchwright.gateway.ids import is_file_id
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.visible import visible_records

MOST: Final = 10_000
"""Files of a page, and how many it has where nothing is said."""
Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files, in which order."""

    after: str | None = None
    """Those behind this one in the order. It need not exist any more: whoever deletes what he has listed goes on from
    the last id that he saw."""
    limit: int = MOST
    order: Order = "desc"
    """Of creation; `desc` is the newest first."""
    purpose: str | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    """Some files, and whether there are more behind them."""

    records: list[FileRecord]
    has_more: bool


def page_of(gateway: Gateway, principal: Principal, query: FileQuery) -> FilePage:
    """A page, filled up to its limit where there are as many. An administrator without a namespace sees all tenants'.

    Blocks. Raises ApiError (400) where `after` is no file's id, and StorageError.
    """
    if query.after is not None and not is_file_id(query.after):
        raise errors.invalid_value("after", "'after' must be the id of a file: the last one of the page before.")
    with closing(_records(gateway, principal, query)) as records:
        found = list(islice(records, query.limit + 1))
    return FilePage(found[: query.limit], len(found) > query.limit)


def _records(gateway: Gateway, principal: Principal, query: FileQuery) -> Generator[FileRecord, None, None]:
    oldest_first, now = query.order == "asc", gateway.clock()
    for one in visible_records(gateway.files, principal, after=query.after, oldest_first=oldest_first):
        if query.purpose in (None, one.record.purpose) and not is_expired(one.record, now):
            yield one.record
