"""The loop of a worker: one feeder, a fixed number of senders, and the writing of what is finished.

Whatever goes wrong, the worker ends in the same way: nothing new is sent, what is in flight is waited for, and what
is finished gets written. Only when the store fails for good, or at `abandon`, is what is in flight given up.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from batchwright.api.reports import Progress
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.claims import Claimed, ShardQueue, WorkerIdentity
from batchwright.worker.run.feeding import Feeder, QueuedLine
from batchwright.worker.run.lines import LineQueue
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.saving import SEGMENT_SECONDS, Saving
from batchwright.worker.run.sender import Sender
from batchwright.worker.run.shard_input import ShardInput
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.gate import Pass

logger = logging.getLogger(__name__)

MIN_SENDERS: Final = 17
"""Lines that may be on their way at least: bad ones that fail side by side leave another one to be tried."""

Companion = Callable[[], Coroutine[Any, Any, None]]
"""A task that runs until it is cancelled."""


def line_queue(max_concurrency: int) -> LineQueue[QueuedLine]:
    """What a worker's gate and runner share."""
    return LineQueue(size=2 * max_concurrency)


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
        lines: LineQueue[QueuedLine],
        sender: Sender,
        progress: RunProgress,
        identity: WorkerIdentity,
        spool: Path,
        stopping: asyncio.Event,
        segment_seconds: float = SEGMENT_SECONDS,
        tell_seconds: float = 0.0,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`lines` are those that the sender's gate lets in. `stopping` is set by `stop`; the sleep of `sender` and
        `source` watches it too, so that no pause outlasts it.

        `spool` is a folder of this worker alone. `tell_seconds` is as in `Saving`. `companions` run beside the work,
        and end with it.
        """
        self._plan = plan
        self._layout = layout
        self._output = output
        self._lines = lines
        self._sender = sender
        self._gate = sender.gate
        self._progress = progress
        self._me = identity
        self._spool = spool
        self._stopping = stopping
        self._companions = companions
        self._feeder = Feeder(
            queue=queue,
            source=source,
            lines=lines,
            gate=sender.gate,
            open_shard=self._open,
            fed=self._commit_if_complete,
            stopping=stopping,
        )
        self._saving = Saving(
            store=output,
            layout=layout,
            identity=identity,
            progress=progress,
            segment_seconds=segment_seconds,
            tell_seconds=tell_seconds,
        )
        self._commits: asyncio.Queue[OpenShard | None] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._abandoned = asyncio.Event()

    async def run(self) -> Progress:
        """Run to the end, or to the last save after `stop`.

        Raises:
            StageFailed, StorageError, RecordError, OSError: the work can't go on; finished lines are in segments as far
            as the storage allows.
        """
        self._working = asyncio.create_task(self._work())
        beside = (self._saving.save_regularly, *self._companions)
        companions = [asyncio.create_task(self._accompany(companion)) for companion in beside]
        try:
            await asyncio.wait((self._working,))
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            try:
                await _end(self._working, *companions)
            finally:
                await self._saving.save_last(self._abandoned)
                await self._saving.discard_last()
        if self._failure is not None:
            raise self._failure
        return self._progress.report()

    @property
    def finished(self) -> bool:
        """Whether no shard is left to take, and each that was taken is committed."""
        return self._feeder.none_left and not self._progress.open

    def stop(self) -> None:
        """Send nothing new; what is in flight is waited for."""
        self._stopping.set()
        self._gate.stop()
        self._feeder.stop()

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
                for _ in range(max(self._sender.policy.max_concurrency, MIN_SENDERS)):
                    workers.create_task(self._send_all())
            self._commits.put_nowait(None)

    async def _feed(self) -> None:
        try:
            await self._feeder.run()
        except Stopping:
            pass
        except Exception as error:
            self._fail(error)

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
        taken = await self._lines.take(self._gate)
        if taken is None:
            return False
        queued, admitted = taken
        try:
            await self._send(queued, admitted)
        except Stopping:
            pass  # the next try is the successor's
        except Exception as error:
            self._fail(error)
        finally:
            self._feeder.give_back(queued.line)
        return True

    async def _send(self, queued: QueuedLine, admitted: Pass) -> None:
        if self._stopping.is_set():
            self._gate.gave_up(admitted)
            raise Stopping
        line = queued.line
        request_id = f"{self._plan.fingerprint}-{line.number}-{self._me.attempt}"
        body = memoryview(line.request.body)
        queued.deliver(await self._sender.send(line.request.url, body, request_id, line.affinity, admitted))
        self._commit_if_complete(queued.shard)

    def _commit_if_complete(self, shard: OpenShard) -> None:
        if shard.complete:
            self._commits.put_nowait(shard)

    async def _commit_all(self) -> None:
        try:
            while (shard := await self._commits.get()) is not None:
                totals = await patiently(shard.commit)
                self._progress.committed(shard.number, totals)
                await asyncio.to_thread(shard.discard)
                self._feeder.committed()
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


async def _end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, wait for their end, and raise what none of them should have raised."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
