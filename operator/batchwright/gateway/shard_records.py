"""The records of a batch's committed shards, in its tenant's folder.

A tenant's workers write there, and so may the tenant: what a record says is a hint. Here its size is bounded, and where
it lies; whoever believes anything else of it has to look.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from batchwright.batchfile.layout import OutputLayout
from batchwright.batchfile.plan_record import RecordError, decode_record
from batchwright.batchfile.shard_record import ShardRecord, Totals
from batchwright.gateway.recent import RecentValues
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.errors import NotFound, ObjectChanged
from batchwright.storage.protocol import ObjectInfo

MOST_BYTES: Final = 1 << 20
"""Of a record. A larger one is none that a worker wrote, and isn't read."""
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}(?:-[0-9]{1,6})?")


class ShardRecords:
    """Reads shard records, and keeps them: a record never changes. Methods block, and raise StorageError."""

    def __init__(self, kept: int) -> None:
        """kept: most records in memory, of a few hundred bytes each."""
        self._kept: RecentValues[tuple[str, str], tuple[ShardRecord | None]] = RecentValues(kept)

    def listed(
        self, folder: TenantFolder, batchjob: str, fingerprint: str, *, most: int | None = None
    ) -> Iterator[tuple[int, ObjectInfo]]:
        """The committed shards of a BatchJob's work by their numbers, in order, each with its record as it is listed;
        none where the fingerprint is none. `most`: objects that are looked at; None for all.
        """
        if not _FINGERPRINT.fullmatch(fingerprint):
            return
        layout = OutputLayout(folder.key(f"{batchjob}/")).work(fingerprint)
        for info in islice(folder.store.list(layout.records), most):
            shard = layout.shard_of_record(info.key)
            if shard is not None and info.size <= MOST_BYTES:
                yield shard, info

    def read(self, folder: TenantFolder, info: ObjectInfo) -> ShardRecord | None:
        """A record, without what may be large in it: its attempt, totals and lines to retry. None where it can't be
        read, or is another one by now.
        """
        place = (folder.store.uri(info.key), info.etag)
        kept = self._kept.get(place)
        if kept is None:
            try:
                data = b"".join(folder.store.stream(info.key, end=MOST_BYTES, if_match=info.etag))
            except (NotFound, ObjectChanged):
                return None
            kept = (_decoded(data),)
            self._kept.put(place, kept)
        return kept[0]


def _decoded(data: bytes) -> ShardRecord | None:
    try:
        return msgspec.structs.replace(decode_record(data, ShardRecord), attempt="", totals=Totals(), retry=None)
    except RecordError:
        return None
