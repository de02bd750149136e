"""What the plot of a run is made of: its shard records, in the tenant's folder.

The tenant may write there, so nothing in them is believed: sizes, times and counts are bounded, and what can't be read
is left out.
"""

import re
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Final

import msgspec

from batchwright.api.batchjob import MAX_SHARDS
from batchwright.batchfile.layout import OutputLayout
from batchwright.batchfile.shard_record import ShardRecord
from batchwright.gateway import ids
from batchwright.gateway.page.throughput import Span
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord, BatchState
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
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class Sample:
    """Shards of a run; `every` is 1 where they are all there."""

    spans: tuple[Span, ...] = ()
    every: int = 1


class RunRecords:
    """Reads them, and keeps what it has read: a shard record is written once. Methods block, and raise nothing."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], ShardRecord | None] = OrderedDict()
        self._lock = Lock()

    def sample(self, folder: TenantFolder, record: BatchRecord, state: BatchState, now: datetime) -> Sample:
        """Shards of a batch; none where its work objects are gone, or can't be read, or lie where a client said."""
        if record.face != OPENAI or not state.fingerprint or not _FINGERPRINT.fullmatch(state.fingerprint):
            return Sample()
        work = OutputLayout(folder.key(f"{ids.batchjob_name(record.id)}/")).work(state.fingerprint)
        try:
            listed = list(islice(folder.store.list(work.records), MAX_SHARDS + 1))
        except StorageError:
            return Sample()
        infos = [one for one in listed if work.shard_of_record(one.key) is not None and one.size <= MOST_BYTES]
        every = -(-len(infos) // MOST_READ) or 1
        with ThreadPoolExecutor(_READERS) as readers:
            records = readers.map(lambda info: self._read(folder, info), infos[::every])
        first, last = record.created_at - _CLOCKS_APART, now + _CLOCKS_APART
        fitting = (one for one in records if one is not None and _fits(one, first, last))
        return Sample(tuple(Span(one.started_at, one.finished_at, one.lines * every) for one in fitting), every)

    def _read(self, folder: TenantFolder, info: ObjectInfo) -> ShardRecord | None:
        place = (folder.namespace, info.key, info.etag)
        with self._lock:
            if place in self._kept:
                return self._kept[place]
        try:
            data = b"".join(folder.store.stream(info.key, end=MOST_BYTES, if_match=info.etag))
            found = msgspec.json.decode(data, type=ShardRecord)
        except StorageError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = None
        with self._lock:
            self._kept[place] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def _fits(record: ShardRecord, first: datetime, last: datetime) -> bool:
    """Whether a worker may have written it. `run` 0 is what an earlier BatchJob did."""
    if record.run == 0 or not 0 < record.lines <= _MOST_LINES:
        return False
    started, finished = record.started_at, record.finished_at
    if started.tzinfo is None or finished.tzinfo is None:
        return False
    return first <= started <= finished <= last
