"""What the plot of a run is made of: its shard records, in the tenant's folder.

The tenant may write there, so nothing in them is believed: sizes, times and counts are bounded, and what can't be read
is left out.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from batchwright.api.batchjob import MAX_SHARDS
from batchwright.batchfile.shard_record import ShardRecord
from batchwright.gateway import ids
from batchwright.gateway.page.throughput import Span
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord, BatchState
from batchwright.gateway.shard_records import ShardRecords
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import ObjectInfo

MOST_READ: Final = 240
"""Of more records every second, third, … one is read, and stands for the others too."""
MOST_BYTES: Final = 64 << 10
_MOST_LINES: Final = 100_000_000
_KEPT: Final = 4096
_READERS: Final = 8
_CLOCKS_APART: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Sample:
    """Shards of a run; `every` is 1 where they are all there."""

    spans: tuple[Span, ...] = ()
    every: int = 1


class RunRecords:
    """Reads them. Methods block, and raise nothing."""

    def __init__(self) -> None:
        self._reader = ShardRecords(_KEPT)

    def sample(self, folder: TenantFolder, record: BatchRecord, state: BatchState, now: datetime) -> Sample:
        """Shards of a batch; none where its work objects are gone, or can't be read, or lie where a client said."""
        if record.face != OPENAI or not state.fingerprint:
            return Sample()
        name = ids.batchjob_name(record.id)
        try:
            listed = list(self._reader.listed(folder, name, state.fingerprint, most=MAX_SHARDS + 1))
        except StorageError:
            return Sample()
        infos = [info for _, info in listed if info.size <= MOST_BYTES]
        every = -(-len(infos) // MOST_READ) or 1
        with ThreadPoolExecutor(_READERS) as readers:
            records = readers.map(lambda info: self._read(folder, info), infos[::every])
        first, last = record.created_at - _CLOCKS_APART, now + _CLOCKS_APART
        fitting = (one for one in records if one is not None and _fits(one, first, last))
        return Sample(tuple(Span(one.started_at, one.finished_at, one.lines * every) for one in fitting), every)

    def _read(self, folder: TenantFolder, info: ObjectInfo) -> ShardRecord | None:
        try:
            return self._reader.read(folder, info)
        except StorageError:
            return None


def _fits(record: ShardRecord, first: datetime, last: datetime) -> bool:
    """Whether a worker may have written it. `run` 0 is what an earlier BatchJob did."""
    if record.run == 0 or not 0 < record.lines <= _MOST_LINES:
        return False
    started, finished = record.started_at, record.finished_at
    if started.tzinfo is None or finished.tzinfo is None:
        return False
    return first <= started <= finished <= last
