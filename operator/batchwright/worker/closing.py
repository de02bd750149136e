"""Closing: what a stopped run has left undone gets its lines, so that the merge finds a record of every shard.

A shard without a record is finished as a worker would do it: it keeps what stands in its segments, and each other line
of its part of the input gets an error line that says why the batch ended without it. Its record is the commit, and is
written once: where a worker that should be gone by then was first, the worker's record counts.

Killed at any moment, it begins anew with the shards that have no record yet.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from batchwright.api.exit_codes import ExitCode
from batchwright.api.undone import UNDONE_MESSAGES, Undone
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import RANGES_VERSION, PlanRecord
from batchwright.storage.errors import BucketMissing, ObjectChanged, StorageError
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.failures import StageFailed
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.shard_input import ShardInput
from batchwright.worker.run.spool_folder import own_folder
from batchwright.worker.server.verdicts import Failed
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

SHARDS_AT_ONCE: Final = 16
"""Each of them waits for the store most of the time."""
BYTES_AT_ONCE: Final = 64 << 20
"""What the shards that are closed side by side have in input, segments and earlier results. A larger one is closed
alone."""
NO_INDEX: Final = -1
"""Stands for a worker's index in a record that a closing merge wrote."""

Closed = Callable[[int, int], None]
"""Called with the shards that are closed by now, and all that were to be."""

R = TypeVar("R")


def close_shards(
    stage: Stage,
    layout: WorkLayout,
    plan: PlanRecord,
    shards: Sequence[int],
    undone: Undone,
    *,
    run: int,
    patience: Patience,
    closed: Closed,
) -> None:
    """See to it that each of the shards has a record.

    Where the input is gone or changed, what segments hold is kept all the same; the other lines of these shards are
    counted and stand in no file.

    Raises:
        StageFailed, StorageError, RecordError, OSError: it can't be done. What is closed by then stays so.
    """
    identity = WorkerIdentity(run=run, index=NO_INDEX, workers=0, attempt=secrets.token_hex(4))
    logger.info("closing %d unfinished shards as %s, attempt %s", len(shards), undone, identity.attempt)
    left = patience.call(lambda: _left_behind(stage.output_store, layout))
    earlier = patience.call(lambda: _earlier_bytes(stage.output_store, layout, plan))
    with own_folder(stage.mounts.spool, identity.attempt) as spool:
        closing = _Closing(
            stage,
            layout=layout,
            plan=plan,
            undone=undone,
            identity=identity,
            left=left,
            earlier=earlier,
            spool=spool,
            patience=patience,
        )
        closing.close_all(shards, closed)


def _left_behind(store: ObjectStore, layout: WorkLayout) -> dict[int, int]:
    """Bytes of what earlier attempts left of each shard. One listing tells, however many shards were never begun."""
    left: dict[int, int] = {}
    for info in store.list(layout.segments):
        number = info.key.removeprefix(layout.segments).partition("/")[0]
        if number.isdecimal():
            left[int(number)] = left.get(int(number), 0) + info.size
    return left


def _earlier_bytes(store: ObjectStore, layout: WorkLayout, plan: PlanRecord) -> int:
    """Bytes of what an earlier BatchJob published, for each shard in the mean: their records alone tell it exactly."""
    if plan.version != RANGES_VERSION:
        return 0
    return sum(info.size for info in store.list(layout.earlier)) // len(plan.shards)


class _StoppedError(Exception):
    """Closing has ended for another reason, which is told instead."""


class _Closing:
    """Closes shards, several at once, each in a thread."""

    def __init__(
        self,
        stage: Stage,
        *,
        layout: WorkLayout,
        plan: PlanRecord,
        undone: Undone,
        identity: WorkerIdentity,
        left: dict[int, int],
        earlier: int,
        spool: Path,
        patience: Patience,
    ) -> None:
        """`left`: bytes of earlier work on those shards of which there is any. `earlier`: bytes of an earlier
        BatchJob's results for each shard.
        """
        self._store = stage.output_store
        self._source = ShardInput(stage.input_store, stage.input_key, plan, stage.job.limits.max_body_bytes)
        self._layout = layout
        self._plan = plan
        self._undone = undone
        self._me = identity
        self._left = left
        self._earlier = earlier
        self._spool = spool
        self._patience = patience
        self._input_gone = threading.Event()
        self._stopped = threading.Event()

    def close_all(self, shards: Sequence[int], closed: Closed) -> None:
        """Close the shards. The first error ends it."""
        total = len(shards)
        closed(0, total)
        working: dict[Future[None], int] = {}
        with ThreadPoolExecutor(SHARDS_AT_ONCE, "batchwright-closing") as pool:
            try:
                for done, number in enumerate(shards):
                    size = self._bytes_of(number)
                    while len(working) == SHARDS_AT_ONCE or (working and sum(working.values()) + size > BYTES_AT_ONCE):
                        _await_some(working)
                    closed(done - len(working), total)
                    working[pool.submit(self._close, number)] = size
                while working:
                    _await_some(working)
                    closed(total - len(working), total)
            except BaseException:
                self._stopped.set()  # those that are at work commit nothing and wait for no store any more
                raise

    def _bytes_of(self, number: int) -> int:
        shard = self._plan.shards[number]
        return shard.end - shard.start + self._left.get(number, 0) + self._earlier

    def _close(self, number: int) -> None:
        if not self._input_gone.is_set():
            with self._opened(number) as shard:
                if self._take_lines(shard):
                    shard.end_of_input()
                    self._commit(shard)
                    return
        with self._opened(number) as shard:  # anew, since lines before the one that was missing may be taken
            shard.end_without_input(self._outcome(shard))
            self._commit(shard)

    @contextmanager
    def _opened(self, number: int) -> Iterator[OpenShard]:
        """A shard with what earlier attempts finished of it."""
        shard = OpenShard(
            number=number,
            shard=self._plan.shards[number],
            fingerprint=self._plan.fingerprint,
            store=self._store,
            layout=self._layout,
            identity=self._me,
            folder=self._spool / str(number),
            exclusive=self._plan.conditional_put,
            clock=lambda: datetime.now(UTC),
            resumed=True,
        )
        try:
            if number in self._left:
                self._call(shard.restore)
            yield shard
        finally:
            shard.discard()

    def _take_lines(self, shard: OpenShard) -> bool:
        """Give each line of the shard an outcome; False where the input is no longer what was planned."""
        outcome = self._outcome(shard)
        try:
            for line in self._source.in_file_order(shard.shard, self._patience, self._stopped):
                custom_id = line.request.custom_id
                if not shard.take_restored(position=line.position, custom_id=custom_id, line=line.line):
                    shard.deliver(
                        position=line.position,
                        line_number=line.number,
                        custom_id=custom_id,
                        line=line.line,
                        outcome=outcome,
                    )
        except (StageFailed, StorageError) as error:
            if not _is_gone(error):
                raise
            logger.warning("going on without the input: %s", error)
            self._input_gone.set()
            return False
        return True

    def _outcome(self, shard: OpenShard) -> Failed:
        """What becomes of a line that was not finished."""
        return shard.given_up or Failed(self._undone.value, UNDONE_MESSAGES[self._undone])

    def _commit(self, shard: OpenShard) -> None:
        record = self._layout.record(shard.number)
        # Without conditional PUT a worker's record would be replaced, and what it paid for be lost.
        if self._plan.conditional_put or self._call(lambda: find(self._store, record)) is None:
            self._call(shard.commit)

    def _call(self, call: Callable[[], R]) -> R:
        if self._stopped.is_set():
            raise _StoppedError
        return self._patience.call(call, stopped=self._stopped)


def _is_gone(error: StageFailed | StorageError) -> bool:
    """Whether the input can't be read any more as it was planned, today or ever."""
    if isinstance(error, StageFailed):
        return error.code is ExitCode.INPUT_CHANGED
    return isinstance(error, ObjectChanged | BucketMissing)


def _await_some(working: dict[Future[None], int]) -> None:
    """Wait until at least one is done. Raises what it raised."""
    for future in wait(working, return_when=FIRST_COMPLETED).done:
        del working[future]
        future.result()
