"""Keeping what a worker has finished in the store: segments of open shards, and the worker's state."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import WorkerState
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.progress import RunProgress

logger = logging.getLogger(__name__)

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


class Saving:
    """Writes segments and the state, regularly and at the end."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        layout: WorkLayout,
        identity: WorkerIdentity,
        progress: RunProgress,
        segment_seconds: float,
        tell_seconds: float = 0.0,
    ) -> None:
        """`segment_seconds`: between two segments of a shard. `tell_seconds`: between two states that tell of open
        shards, at least, where they do.
        """
        self._store = store
        self._layout = layout
        self._me = identity
        self._progress = progress
        self._segment_seconds = segment_seconds
        self._tell_seconds = tell_seconds
        self._writing_state = threading.Lock()
        self._written_state: WorkerState | None = None

    async def save_regularly(self) -> None:
        """Go on until cancelled.

        Raises:
            StorageError: the store refuses, or stayed away.
        """
        clock = asyncio.get_running_loop().time
        due = clock() + self._segment_seconds
        tell_due = clock() + self._tell_seconds
        told_away = False
        while True:
            await asyncio.sleep(min(self._segment_seconds, LOOK_SECONDS))
            if told_away != self._progress.server_away:
                told_away = not told_away
                await self._save_state()
            shards = list(self._progress.open.values())
            if clock() < due:
                await self._flush(shard for shard in shards if shard.suspect)
                continue
            tell = self._progress.tells_open and clock() >= tell_due
            tell_due = clock() + self._tell_seconds if tell else tell_due
            await self._flush(shards, tell=tell)
            await self._save_state()
            due = clock() + self._segment_seconds

    async def _flush(self, shards: Iterable[OpenShard], *, tell: bool = False) -> None:
        for shard in shards:
            counted, kept = shard.worked if tell else None, not shard.unflushed
            if shard.unflushed and not shard.complete:  # what is complete gets committed
                await patiently(shard.flush)
                kept = True
            if counted is not None and kept:
                self._progress.kept(shard.number, counted)

    def _flush_and_tell(self, shard: OpenShard) -> None:
        counted = shard.worked
        shard.flush()
        self._progress.kept(shard.number, counted)

    async def _save_state(self) -> None:
        await patiently(partial(self._write_state, self._progress.state()))

    async def save_last(self, abandoned: asyncio.Event) -> None:
        """Write what is finished and not committed. What can't be written is the successor's to do again.

        The store is waited for until `abandoned`, and for a few seconds after it.
        """
        shards = list(self._progress.open.values())
        flushing = asyncio.create_task(_try_all([partial(self._flush_and_tell, shard) for shard in shards]))
        waiting = asyncio.create_task(abandoned.wait())
        await asyncio.wait((flushing, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await _within_last_seconds(flushing)
        state = partial(self._write_state, self._progress.state(leaving=True))
        await _within_last_seconds(asyncio.create_task(_try_all([state])))

    async def discard_last(self) -> None:
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
                self._store.write(self._layout.worker(self._me.run, self._me.index), encode_record(state))
                self._written_state = state


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
