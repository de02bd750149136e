"""The loop of a worker: one feeder, a fixed number of senders, and the writing of what is finished."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from batchwright.api.reports import Progress
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord, encode_record
from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.byte_budget import ByteBudget
from batchwright.worker.run.claims import Claimed, ShardQueue, WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.sender import Sender, Stopping
from batchwright.worker.run.shard_input import ShardInput, ShardLine

logger = logging.getLogger(__name__)

MAX_OPEN_SHARDS: Final = 8
"""Shards whose slow lines may be waited for while the next are sent."""
BYTES_IN_FLIGHT: Final = 64 << 20
"""Input lines held in the queue and in flight. Where lines are large, fewer are in flight."""
SEGMENT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Item:
    shard: OpenShard
    line: ShardLine


class Runner:
    """Works until no shard is left, or until `stop`: then what is in flight is waited for and flushed."""

    def __init__(
        self,
        *,
        plan: PlanRecord,
        layout: WorkLayout,
        output: ObjectStore,
        source: ShardInput,
        queue: ShardQueue,
        sender: Sender,
        progress: RunProgress,
        identity: WorkerIdentity,
        spool: Path,
        stopping: asyncio.Event,
        segment_seconds: float = SEGMENT_SECONDS,
    ) -> None:
        """`stopping` is set by `stop`; the sender's `sleep` watches it too, so that no backoff outlasts it."""
        self._plan = plan
        self._layout = layout
        self._output = output
        self._source = source
        self._queue = queue
        self._sender = sender
        self._progress = progress
        self._me = identity
        self._spool = spool
        self._stopping = stopping
        self._segment_seconds = segment_seconds
        self._concurrency = sender.policy.max_concurrency
        self._items: asyncio.Queue[_Item | None] = asyncio.Queue(maxsize=2 * self._concurrency)
        self._budget = ByteBudget(BYTES_IN_FLIGHT)
        self._room = asyncio.Semaphore(MAX_OPEN_SHARDS)
        self._commits: asyncio.Queue[OpenShard | None] = asyncio.Queue()
        self._senders: list[asyncio.Task[None]] = []

    async def run(self) -> Progress:
        """Run to the end, or to the flush after `stop`.

        Raises:
            StageFailed, StorageError: the work can't go on, alone or in a group; finished lines are in segments as
            far as the storage allows.
        """
        try:
            async with _beside(self._save_regularly()):
                await self._work()
        except BaseException:
            await self._save_what_can_be()
            raise
        await self._flush(self._progress.open.values())
        await patiently(self._write_state)
        return self._progress.report()

    def stop(self) -> None:
        """Send nothing new; what is in flight is waited for."""
        self._stopping.set()
        self._room.release()  # a feeder that waits for room looks up

    def abandon(self) -> None:
        """Wait no longer for what is in flight."""
        for task in self._senders:
            task.cancel()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            committer = tasks.create_task(self._commit_all())
            async with asyncio.TaskGroup() as workers:
                workers.create_task(self._feed())
                self._senders = [workers.create_task(self._send_all()) for _ in range(self._concurrency)]
            self._commits.put_nowait(None)
            await committer

    async def _feed(self) -> None:
        try:
            await self._feed_shards()
        except Exception:
            await self._end_items()  # what was paid for is waited for
            raise
        await self._end_items()

    async def _end_items(self) -> None:
        for _ in range(self._concurrency):
            await self._items.put(None)

    async def _feed_shards(self) -> None:
        while not self._stopping.is_set():
            await self._room.acquire()
            claimed = None if self._stopping.is_set() else await patiently(self._queue.take)
            if claimed is None:
                return
            await self._feed_shard(claimed)

    async def _feed_shard(self, claimed: Claimed) -> None:
        shard = self._open(claimed.shard)
        if claimed.resumed:
            await patiently(shard.restore)
        async for line in self._source.lines(shard.shard):
            if self._stopping.is_set():
                return
            if shard.take_restored(position=line.position, custom_id=line.request.custom_id, line=line.line):
                continue
            await self._budget.acquire(len(line.line))
            await self._items.put(_Item(shard, line))
        shard.fed = True
        self._commit_if_complete(shard)

    def _open(self, number: int) -> OpenShard:
        shard = OpenShard(
            number=number,
            shard=self._plan.shards[number],
            fingerprint=self._plan.fingerprint,
            store=self._output,
            layout=self._layout,
            identity=self._me,
            folder=self._spool / f"{self._me.run}-{self._me.index}-{number}",
            exclusive=self._plan.conditional_put,
            clock=lambda: datetime.now(UTC),
        )
        self._progress.open[number] = shard
        return shard

    async def _send_all(self) -> None:
        while (item := await self._items.get()) is not None:
            if not self._stopping.is_set():
                await self._send(item)
            self._budget.release(len(item.line.line))

    async def _send(self, item: _Item) -> None:
        line, shard = item.line, item.shard
        request_id = f"{self._plan.fingerprint}-{line.number}-{self._me.attempt}"
        try:
            outcome = await self._sender.send(line.request.url, bytes(line.request.body), request_id)
        except Stopping:
            return  # its next try is the successor's
        shard.deliver(
            position=line.position,
            line_number=line.number,
            custom_id=line.request.custom_id,
            line=line.line,
            outcome=outcome,
        )
        self._commit_if_complete(shard)

    def _commit_if_complete(self, shard: OpenShard) -> None:
        if shard.complete:
            self._commits.put_nowait(shard)

    async def _commit_all(self) -> None:
        while (shard := await self._commits.get()) is not None:
            totals = await patiently(shard.commit)
            self._progress.committed(shard.number, totals)
            await asyncio.to_thread(shard.discard)
            self._room.release()

    async def _save_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._segment_seconds)
            await self._flush(shard for shard in list(self._progress.open.values()) if not shard.complete)
            await patiently(self._write_state)

    async def _save_what_can_be(self) -> None:
        """After a failure: one try for each open shard."""
        for shard in self._progress.open.values():
            try:
                await asyncio.to_thread(shard.flush)
            except StorageError as error:
                logger.warning("the last finished lines of shard %d are lost: %s", shard.number, error)

    async def _flush(self, shards: Iterable[OpenShard]) -> None:
        for shard in shards:
            if shard.unflushed:
                await patiently(shard.flush)

    def _write_state(self) -> None:
        key = self._layout.worker(self._me.run, self._me.index)
        self._output.write(key, encode_record(self._progress.state()))


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something beside the body: its failure ends the body, and the body's end cancels it."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        try:
            yield
        finally:
            task.cancel()
