"""Keeping the progress object current while a run goes on.

One worker at a time writes it, the one that the progress record names. At first that is index 0, whose pod may be long
in coming, be killed, or be done long before the others. So the rule is: **whoever has seen the record unchanged for a
while writes it next**, a lower index earlier than a higher one. The record is replaced by conditional PUT, so of two
that want to one does, and a writer that finds another one's name in it leaves it alone. A pod that replaces another one
takes its part at once. No worker waits for another one, and none stays for the object's sake: it would hold the room
that the others may be waiting for.

Counts are those of committed shards, and of open ones what stands in their segments: nothing that a kill could take
back. What a repair or a successor has yet to find again is covered by the counts in the record: none goes down.

It costs a look of each worker and a read of each state that has changed, together not more than `CALLS_A_SECOND` of
each kind, however many workers there are: with more than a hundred, all of it happens less often.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from batchwright.batchfile.counts import ProgressCounts
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord, RecordError, decode_record, encode_record
from batchwright.batchfile.progress_object import ProgressRecord, counts_of, progress_object
from batchwright.batchfile.shard_record import WorkerState
from batchwright.storage.errors import NotFound, PreconditionFailed, StorageError
from batchwright.storage.protocol import ObjectInfo, ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.published import read_origin
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.progress import RunProgress

logger = logging.getLogger(__name__)

CALLS_A_SECOND: Final = 20
TURNS_OF_SILENCE: Final = 3
"""Turns that a writer may miss before another worker takes its part."""
SECONDS_BETWEEN_INDEXES: Final = 0.1
"""How much longer each index waits than the one before it, so that not all come at once."""
READERS: Final = 16
"""States read at once."""


def seconds_between_turns(segment_seconds: float, workers: int) -> float:
    """How often a worker looks, and its state tells of open shards: as often as it writes segments, or less often where
    there are very many workers.
    """
    return max(segment_seconds, workers / CALLS_A_SECOND)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What another worker's state tells."""

    etag: str
    committed: ProgressCounts
    open_shards: ProgressCounts


class ProgressKeeper:
    """The part of one worker in it. `turn` is called by one thread at a time."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        layout: WorkLayout,
        key: str,
        plan: PlanRecord,
        identity: WorkerIdentity,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`key` is the progress object's. `seconds`: between two turns."""
        self._store = store
        self._layout = layout
        self._key = key
        self._plan = plan
        self._me = identity
        self._seconds = seconds
        self._patience = TURNS_OF_SILENCE * seconds + identity.index * SECONDS_BETWEEN_INDEXES
        self._clock = clock
        self._looked = False
        self._etag: str | None = None
        self._unchanged_since = clock()
        self._record: ProgressRecord | None = None
        self._reused: ProgressCounts | None = None
        self._heard: dict[tuple[int, int], _Heard] = {}
        self._told: ProgressCounts | None = None
        self._published: ObjectInfo | None = None

    async def run(self, progress: RunProgress) -> None:
        """Take turns until cancelled. What goes wrong is logged: no request is given up for the progress object."""
        said = ""
        while True:
            mine = progress.state()
            try:
                await asyncio.to_thread(self.turn, mine)
                said = ""
            except (StorageError, RecordError) as error:
                if str(error) != said:
                    logger.warning("the progress object can't be kept current: %s", error)
                said = str(error)
            await asyncio.sleep(self._seconds)

    def turn(self, mine: WorkerState) -> None:
        """Look who writes the object, and write it if that is this worker. `mine` is what its state tells now.

        Raises:
            StorageError, RecordError: the next turn tries again.
        """
        standing = find(self._store, self._layout.progress)
        etag = standing.etag if standing is not None else None
        if not self._looked or etag != self._etag:
            self._meet(etag)
        if self._record is None and self._is_abandoned():
            self._record = self._read(etag) or self._blank()
        if self._record is None:
            return
        try:
            self._write(self._record, mine)
        except (PreconditionFailed, NotFound) as error:
            # Another writer's, one's own whose answer got lost, or deleted by a person: the next turn sees.
            logger.info("the progress object is not what it was: %s", error)
            self._published = None

    def _meet(self, etag: str | None) -> None:
        """The record is another one than before. Only a writer reads it, and whoever sees it for the first time."""
        if self._record is not None or not self._looked:
            standing = self._read(etag)
            self._record = standing if standing is not None and self._is_mine(standing) else None
            if standing is None and self._me.index == 0:
                self._record = self._blank()
        self._looked, self._etag, self._unchanged_since = True, etag, self._clock()

    def _is_mine(self, record: ProgressRecord) -> bool:
        """Whether it is this worker's own, or that of the pod that it replaces."""
        return record.attempt == self._me.attempt or (not self._looked and record.index == self._me.index)

    def _is_abandoned(self) -> bool:
        """Whether nobody writes although there is work: a worker that was cut off may wake up after everything is
        published, and is not to replace the final object.
        """
        if self._clock() - self._unchanged_since < self._patience:
            return False
        records = (self._layout.shard_of_record(info.key) for info in self._store.list(self._layout.records))
        return len({shard for shard in records if shard is not None}) < len(self._plan.shards)

    def _read(self, etag: str | None) -> ProgressRecord | None:
        if etag is None:
            return None
        try:
            return decode_record(self._store.read(self._layout.progress), ProgressRecord)
        except RecordError as error:
            logger.warning("beginning anew to count: %s: %s", self._store.uri(self._layout.progress), error)
            return None

    def _blank(self) -> ProgressRecord:
        return ProgressRecord(self._me.run, self._me.index, self._me.attempt, datetime.now(UTC))

    def _write(self, before: ProgressRecord, mine: WorkerState) -> None:
        # The order is what keeps an earlier writer from replacing what a later one has told, whenever its calls get
        # through: the object is looked at first, and the record claimed before the object is written.
        if self._published is None:
            self._published, self._told = find(self._store, self._key), None
        counts = self._count(mine).at_least(before.counts)
        record = ProgressRecord(self._me.run, self._me.index, self._me.attempt, datetime.now(UTC), counts)
        self._etag = self._replace(self._layout.progress, encode_record(record), self._etag).etag
        self._record, self._unchanged_since = record, self._clock()
        if counts != self._told:
            etag = self._published.etag if self._published is not None else None
            self._published = self._replace(self._key, progress_object(counts), etag)
            self._told = counts

    def _replace(self, key: str, data: bytes, etag: str | None) -> ObjectInfo:
        if not self._plan.conditional_put:
            return self._store.write(key, data)
        return self._store.write(key, data, if_none_match=etag is None, if_match=etag)

    def _count(self, mine: WorkerState) -> ProgressCounts:
        """What stands from an earlier BatchJob, what this worker has, and what the states of all others tell."""
        if self._reused is None:
            origin = read_origin(self._store, self._layout)
            self._reused = counts_of(origin.reused) if origin is not None else ProgressCounts()
        counts = self._reused + counts_of(mine.totals) + (mine.open_shards or ProgressCounts())
        self._hear()
        for (run, index), heard in self._heard.items():
            counts += heard.committed
            # What other runs and indexes that are no more had open, this one's workers find and count themselves.
            if run == self._me.run and index < self._me.workers:
                counts += heard.open_shards
        return counts.at_most(self._plan.lines)

    def _hear(self) -> None:
        """Read the states that have changed."""
        changed = []
        for info in self._store.list(self._layout.workers):
            worker = self._layout.run_and_index_of_worker(info.key)
            if worker is None or worker == (self._me.run, self._me.index):
                continue
            if worker not in self._heard or self._heard[worker].etag != info.etag:
                changed.append(worker)
        with ThreadPoolExecutor(READERS) as readers:
            self._heard.update(zip(changed, readers.map(self._hear_one, changed), strict=True))

    def _hear_one(self, worker: tuple[int, int]) -> _Heard:
        fetched = self._store.fetch(self._layout.worker(*worker))
        state = decode_record(fetched.data, WorkerState)
        return _Heard(fetched.info.etag, counts_of(state.totals), state.open_shards or ProgressCounts())
