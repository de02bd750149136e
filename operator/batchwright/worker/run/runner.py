"""The loop of a worker: one feeder, a fixed number of senders, and the writing of what is finished.

Whatever goes wrong, the worker ends in the same way: nothing new is sent, what is in flight is waited for, and what
is finished gets written. Only when the store fails for good, or at `abandon`, is what is in flight given up.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from batchwright.api.reports import Progress
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord, encode_record
from batchwright.batchfile.shard_record import WorkerState
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.byte_budget import ByteBudget
from batchwright.worker.run.claims import Claimed, ShardQueue, WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.openings import WORKER_FAILED, given_up_message, must_be_alone
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.sender import Sender
from batchwright.worker.run.shard_input import ShardInput, ShardLine
from batchwright.worker.run.stopping import Stopping, sleep_unless
from batchwright.worker.server.verdicts import Failed, Outcome

logger = logging.getLogger(__name__)

MAX_OPEN_SHARDS: Final = 8
"""Shards whose slow lines may be waited for while the next are sent."""
BYTES_IN_FLIGHT: Final = 32 << 20
"""Input lines held in the queue and in flight. Where lines are large, fewer are in flight."""
MIN_SENDERS: Final = 17
"""Lines held at least, sent or waiting at the gate: bad ones that fail side by side leave another one to be tried."""
SEGMENT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.25
"""How soon it is written what decides about a kill: the first segment of a shard over which a worker was killed, which
shows it good, and that the model server is away."""
SAVES_AT_ONCE: Final = 2
"""Shards that are written at the same time at the end: each holds a segment or two in memory."""
DISCARD_SECONDS: Final = 1.0
"""How long it is waited for whoever still copies a shard that is open at the end."""
LAST_SAVE_SECONDS: Final = 6.0
"""What the store gets to take what is finished, and again for the worker's state, once nobody waits any longer."""


Companion = Callable[[], Coroutine[Any, Any, None]]
"""A task that runs until it is cancelled."""


class _Item(Struct, frozen=True):
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
        companions: Sequence[Companion] = (),
    ) -> None:
        """`stopping` is set by `stop`; the sleep of `sender` and `source` watches it too, so that no pause outlasts it.

        `spool` is a folder of this worker alone. `companions` run beside the work, and end with it.
        """
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
        self._sleep = sleep_unless(stopping)
        self._segment_seconds = segment_seconds
        self._companions = companions
        self._senders = max(sender.policy.max_concurrency, MIN_SENDERS)
        self._items: asyncio.Queue[_Item | None] = asyncio.Queue(maxsize=2 * sender.policy.max_concurrency)
        self._untried = 0
        sender.gate.has_untried = lambda: self._untried > 0 or not self._none_left
        self._budget = ByteBudget(BYTES_IN_FLIGHT)
        self._room = asyncio.Semaphore(MAX_OPEN_SHARDS)
        self._commits: asyncio.Queue[OpenShard | None] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._none_left = False
        self._abandoned = asyncio.Event()
        self._writing_state = threading.Lock()
        self._written_state: WorkerState | None = None

    async def run(self) -> Progress:
        """Run to the end, or to the last save after `stop`.

        Raises:
            StageFailed, StorageError, RecordError, OSError: the work can't go on; finished lines are in segments as far
            as the storage allows.
        """
        self._working = asyncio.create_task(self._work())
        beside = [self._save_regularly(), *(self._accompany(companion) for companion in self._companions)]
        companions = [asyncio.create_task(one) for one in beside]
        try:
            await asyncio.wait((self._working,))
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            try:
                await _end(self._working, *companions)
            finally:
                await self._save_last()
                await self._discard_last()
        if self._failure is not None:
            raise self._failure
        return self._progress.report()

    @property
    def finished(self) -> bool:
        """Whether no shard is left to take, and each that was taken is committed."""
        return self._none_left and not self._progress.open

    def stop(self) -> None:
        """Send nothing new; what is in flight is waited for."""
        self._stopping.set()
        self._sender.gate.stop()
        self._room.release()  # a feeder that waits for room looks up

    def abandon(self) -> None:
        """Wait no longer for what is in flight, and only a few seconds for the store."""
        self.stop()
        self._abandoned.set()
        if self._working is not None:
            self._working.cancel()

    def _fail(self, error: Exception) -> None:
        """Stop for an error. The first one counts, since others mostly follow from it."""
        if self._failure is None:
            logger.info("stopping: %s", error)
            self._failure = error
        self.stop()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._commit_all())
            async with asyncio.TaskGroup() as workers:
                workers.create_task(self._feed())
                for _ in range(self._senders):
                    workers.create_task(self._send_all())
            self._commits.put_nowait(None)

    async def _feed(self) -> None:
        try:
            await self._feed_shards()
        except Stopping:
            pass
        except Exception as error:
            self._fail(error)
        for _ in range(self._senders):
            await self._items.put(None)

    async def _feed_shards(self) -> None:
        while not self._stopping.is_set():
            await self._take_room()
            claimed = await patiently(self._queue.take, sleep=self._sleep)
            if claimed is None:
                self._none_left = True
                return
            await self._feed_shard(claimed)

    async def _feed_shard(self, claimed: Claimed) -> None:
        shard = self._open(claimed)
        if not claimed.resumed:
            await self._feed_lines(shard)
            return
        await patiently(partial(shard.restore, claimed.first), sleep=self._sleep)
        if must_be_alone(shard.kills):
            await self._feed_alone(shard)
        else:
            await patiently(shard.record_opening, sleep=self._sleep)
            await self._feed_lines(shard)

    async def _feed_alone(self, shard: OpenShard) -> None:
        """Feed a shard while no other one is open: if the worker is killed again, this one is to blame."""
        for _ in range(MAX_OPEN_SHARDS - 1):
            await self._take_room()
        await patiently(shard.record_opening, sleep=self._sleep)
        await self._feed_lines(shard)
        await self._take_room()  # that of the shard itself, which its commit gives back
        for _ in range(MAX_OPEN_SHARDS):
            self._room.release()

    async def _take_room(self) -> None:
        await self._room.acquire()
        if self._stopping.is_set():
            raise Stopping

    async def _feed_lines(self, shard: OpenShard) -> None:
        given_up = Failed(WORKER_FAILED, given_up_message(shard.number, shard.kills)) if shard.given_up else None
        async with contextlib.aclosing(self._source.lines(shard.shard, self._budget)) as lines:
            async for line in lines:
                if self._stopping.is_set():
                    return
                if shard.take_restored(position=line.position, custom_id=line.request.custom_id, line=line.line):
                    self._budget.release(len(line.line))
                    continue
                if given_up is not None:
                    _deliver(shard, line, given_up)
                    self._budget.release(len(line.line))
                    continue
                await self._items.put(_Item(shard, line))
                self._untried += 1
        shard.end_of_input()
        self._commit_if_complete(shard)

    def _open(self, claimed: Claimed) -> OpenShard:
        number = claimed.shard
        shard = OpenShard(
            number=number,
            shard=self._plan.shards[number],
            fingerprint=self._plan.fingerprint,
            store=self._output,
            layout=self._layout,
            identity=self._me,
            folder=self._spool / str(number),
            exclusive=self._plan.conditional_put,
            clock=lambda: datetime.now(UTC),
            resumed=claimed.resumed,
        )
        self._progress.open[number] = shard
        return shard

    async def _send_all(self) -> None:
        while await self._send_next():
            pass

    async def _send_next(self) -> bool:
        """Send the next line; False where there is none. Apart from the loop, so that nobody who waits for a line
        still holds the one before it.
        """
        item = await self._items.get()
        if item is None:
            return False
        self._untried -= 1
        try:
            # After `stop` lines are taken and not sent, so that the feeder never waits for ever.
            if not self._stopping.is_set():
                await self._send(item)
        except Stopping:
            pass  # the next try is the successor's
        except Exception as error:
            self._fail(error)
        finally:
            self._budget.release(len(item.line.line))
        return True

    async def _send(self, item: _Item) -> None:
        line, shard = item.line, item.shard
        request_id = f"{self._plan.fingerprint}-{line.number}-{self._me.attempt}"
        outcome = await self._sender.send(line.request.url, memoryview(line.request.body), request_id, line.affinity)
        _deliver(shard, line, outcome)
        self._commit_if_complete(shard)

    def _commit_if_complete(self, shard: OpenShard) -> None:
        if shard.complete:
            self._commits.put_nowait(shard)

    async def _commit_all(self) -> None:
        try:
            while (shard := await self._commits.get()) is not None:
                totals = await patiently(shard.commit)
                self._progress.committed(shard.number, totals)
                await asyncio.to_thread(shard.discard)
                self._room.release()
        except Exception as error:
            # What is in flight could not be kept.
            self._fail(error)
            self.abandon()

    async def _accompany(self, companion: Companion) -> None:
        try:
            await companion()
        except Exception as error:
            self._fail(error)
            self.abandon()

    async def _save_regularly(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + self._segment_seconds
        told_away = False
        try:
            while True:
                await asyncio.sleep(min(self._segment_seconds, LOOK_SECONDS))
                if told_away != self._progress.server_away:
                    told_away = not told_away
                    await patiently(partial(self._write_state, self._progress.state()))
                shards = list(self._progress.open.values())
                if clock() < due:
                    await self._flush(shard for shard in shards if shard.suspect)
                    continue
                await self._flush(shards)
                await patiently(partial(self._write_state, self._progress.state()))
                due = clock() + self._segment_seconds
        except Exception as error:
            self._fail(error)
            self.abandon()

    async def _flush(self, shards: Iterable[OpenShard]) -> None:
        for shard in shards:
            if shard.unflushed and not shard.complete:  # what is complete gets committed
                await patiently(shard.flush)

    async def _save_last(self) -> None:
        """Write what is finished and not committed. What can't be written is the successor's to do again.

        The store is waited for as long as nobody has called `abandon`, and for a few seconds after it.
        """
        flushing = asyncio.create_task(_try_all([shard.flush for shard in self._progress.open.values()]))
        abandoned = asyncio.create_task(self._abandoned.wait())
        await asyncio.wait((flushing, abandoned), return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()
        await _within_last_seconds(flushing)
        state = partial(self._write_state, self._progress.state(leaving=True))
        await _within_last_seconds(asyncio.create_task(_try_all([state])))

    async def _discard_last(self) -> None:
        """Give the disk of what is not committed back. The worker's folder goes with it in any case, so a thread that
        holds a spool for long is left behind.
        """
        shards = list(self._progress.open.values())
        discarding = [asyncio.create_task(asyncio.to_thread(shard.discard)) for shard in shards]
        if discarding:
            await asyncio.wait(discarding, timeout=DISCARD_SECONDS)

    def _write_state(self, state: WorkerState) -> None:
        with self._writing_state:  # an earlier call that was given up must not come in after this one
            if state != self._written_state:
                self._output.write(self._layout.worker(self._me.run, self._me.index), encode_record(state))
                self._written_state = state


def _deliver(shard: OpenShard, line: ShardLine, outcome: Outcome) -> None:
    shard.deliver(
        position=line.position,
        line_number=line.number,
        custom_id=line.request.custom_id,
        line=line.line,
        outcome=outcome,
    )


async def _try_all(saves: Iterable[Callable[[], None]]) -> None:
    turns = asyncio.Semaphore(SAVES_AT_ONCE)

    async def try_one(save: Callable[[], None]) -> None:
        async with turns:
            await patiently(save)

    for result in await asyncio.gather(*map(try_one, saves), return_exceptions=True):
        if isinstance(result, Exception):
            logger.warning("finished work could not be saved: %s", result)


async def _within_last_seconds(saving: asyncio.Task[None]) -> None:
    """Wait for a save, but not for ever: a thread that hangs in a call to a dead store is left behind."""
    await asyncio.wait((saving,), timeout=LAST_SAVE_SECONDS)
    if not saving.done():
        saving.cancel()
        logger.warning("finished work could not be saved: the store doesn't answer")


async def _end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, wait for their end, and raise what none of them should have raised."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
