"""The feeder of a worker: it claims shards, opens them, and queues their lines for the senders."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from batchwright.worker.run.byte_budget import ByteBudget
from batchwright.worker.run.claims import Claimed, ShardQueue
from batchwright.worker.run.lines import LineQueue
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.openings import must_be_alone
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.shard_input import ShardInput, ShardLine
from batchwright.worker.run.stopping import Stopping, sleep_unless
from batchwright.worker.server.gate import Gate
from batchwright.worker.server.verdicts import Outcome

MAX_OPEN_SHARDS: Final = 8
"""Shards whose slow lines may be waited for while the next are sent."""
BYTES_IN_FLIGHT: Final = 32 << 20
"""Input lines held in the queue and in flight. Where lines are large, fewer are in flight."""


class QueuedLine(Struct, frozen=True):
    """A line that waits to be sent, and the shard that takes its outcome."""

    shard: OpenShard
    line: ShardLine

    def deliver(self, outcome: Outcome) -> None:
        """Give the shard the line's outcome."""
        line = self.line
        self.shard.deliver(
            position=line.position,
            line_number=line.number,
            custom_id=line.request.custom_id,
            line=line.line,
            outcome=outcome,
        )


class Feeder:
    """Feeds shards until none is left, or until it is stopped."""

    def __init__(
        self,
        *,
        queue: ShardQueue,
        source: ShardInput,
        lines: LineQueue[QueuedLine],
        gate: Gate,
        open_shard: Callable[[Claimed], OpenShard],
        fed: Callable[[OpenShard], None],
        stopping: asyncio.Event,
    ) -> None:
        """`fed` is told of each shard whose lines have all been queued or are done."""
        self._queue = queue
        self._source = source
        self._lines = lines
        self._gate = gate
        self._open_shard = open_shard
        self._fed = fed
        self._stopping = stopping
        self._sleep = sleep_unless(stopping)
        self._budget = ByteBudget(BYTES_IN_FLIGHT)
        self._room = asyncio.Semaphore(MAX_OPEN_SHARDS)
        self.none_left = False
        """Whether there is no shard left to take."""

    async def run(self) -> None:
        """Feed one shard after the other.

        Raises:
            Stopping: it was stopped.
            StageFailed, StorageError, RecordError, OSError: the work can't go on.
        """
        try:
            while not self._stopping.is_set():
                await self._take_room()
                claimed = await patiently(self._queue.take, sleep=self._sleep)
                if claimed is None:
                    self.none_left = True
                    return
                await self._feed_shard(claimed)
        finally:
            self._lines.end()

    def give_back(self, line: ShardLine) -> None:
        """A line is done, and leaves the memory."""
        self._budget.release(len(line.line))

    def committed(self) -> None:
        """A shard is done, and leaves its room to another one."""
        self._room.release()

    def stop(self) -> None:
        """Queue nothing more, and take back what is queued. To be called once the event `stopping` is set."""
        for queued in self._lines.stop():
            self.give_back(queued.line)
        self._room.release()  # whoever waits for room looks up

    async def _feed_shard(self, claimed: Claimed) -> None:
        shard = self._open_shard(claimed)
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
        given_up = shard.given_up
        async with contextlib.aclosing(self._source.lines(shard.shard, self._budget)) as lines:
            async for line in lines:
                if self._stopping.is_set():
                    raise Stopping
                if shard.take_restored(position=line.position, custom_id=line.request.custom_id, line=line.line):
                    self.give_back(line)
                elif given_up is not None:
                    QueuedLine(shard, line).deliver(given_up)
                    self.give_back(line)
                else:
                    await self._queue_line(QueuedLine(shard, line))
        shard.end_of_input()
        self._fed(shard)

    async def _queue_line(self, queued: QueuedLine) -> None:
        try:
            await self._lines.put(queued, self._gate)
        except Stopping:
            self.give_back(queued.line)
            raise
