"""A shard that is being worked on: its finished lines, its counts, its segments, its commit.

Everything but `fed` and the counts is called from worker threads or the event loop, one at a time for each shard: the
`lock` is held by whoever touches the spool from a thread.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from batchwright.batchfile.answer import read_answer
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import Shard, decode_record, encode_record
from batchwright.batchfile.result_line import failure_line, is_success, read_finished_line, result_line
from batchwright.batchfile.shard_record import ERRORS, RESULTS, RETRY, ShardFile, ShardRecord, Totals
from batchwright.storage.errors import PreconditionFailed
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.attempts import Answered, Outcome
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.spool import Spool
from batchwright.worker.run.tally import Tally

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Restored:
    """A line that an earlier attempt finished, and where it lies in the spool."""

    place: tuple[int, int]
    succeeded: bool
    code: str
    body: bytes


class OpenShard:
    """Collects the outcomes of one shard until each of its lines has one."""

    def __init__(
        self,
        *,
        number: int,
        shard: Shard,
        fingerprint: str,
        store: ObjectStore,
        layout: WorkLayout,
        identity: WorkerIdentity,
        folder: Path,
        exclusive: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self.number = number
        self.shard = shard
        self.tally = Tally()
        self.fed = False
        """Every line has been read and is queued or done."""
        self._fingerprint = fingerprint
        self._store = store
        self._layout = layout
        self._me = identity
        self._exclusive = exclusive
        self._clock = clock
        self._started_at = clock()
        self._spool = Spool(folder, shard.lines)
        self._done = 0
        self._restored: dict[str, _Restored] = {}
        self._flushed = 0
        self._segments = 0
        self._lock = threading.Lock()

    @property
    def complete(self) -> bool:
        """Whether every line has an outcome."""
        return self.fed and self._done == self.shard.lines

    @property
    def unflushed(self) -> int:
        """Bytes of finished lines that are in no segment yet."""
        return self._spool.size - self._flushed

    def deliver(self, *, position: int, line_number: int, custom_id: str, line: bytes, outcome: Outcome) -> None:
        """Take the outcome of a line. `position` counts the shard's requests from 0; `line` is the input's."""
        request_id = f"batch_req_{self._fingerprint}_{line_number}"
        if isinstance(outcome, Answered):
            succeeded = is_success(outcome.status)
            finished = result_line(
                request_id=request_id,
                custom_id=custom_id,
                status=outcome.status,
                server_request_id=outcome.server_request_id,
                body=outcome.body,
            )
        else:
            succeeded = False
            finished = failure_line(
                request_id=request_id, custom_id=custom_id, code=outcome.code, message=outcome.message
            )
        with self._lock:
            self._spool.place(position, self._spool.append(finished), succeeded=succeeded)
            if not succeeded:
                self._spool.append_retry(position, line)
        if isinstance(outcome, Answered) and succeeded:
            self.tally.success(outcome.reading)
        else:
            self.tally.failure(str(outcome.status) if isinstance(outcome, Answered) else outcome.code)
        self._done += 1

    def restore(self) -> None:
        """Read the segments of earlier attempts. Which positions their lines have shows when the input is read."""
        with self._lock:
            for info in self._store.list(self._layout.shard_segments(self.number)):
                for line in self._store.read(info.key).split(b"\n"):
                    if line:
                        self._restore_line(line)
            self._flushed = self._spool.size
        logger.info("shard %d goes on with %d finished lines", self.number, len(self._restored))

    def _restore_line(self, line: bytes) -> None:
        finished = read_finished_line(line)
        if finished.custom_id in self._restored:
            return  # two attempts finished it; one answer counts
        self._restored[finished.custom_id] = _Restored(
            self._spool.append(line), finished.succeeded, finished.code, finished.body if finished.succeeded else b""
        )

    def take_restored(self, *, position: int, custom_id: str, line: bytes) -> bool:
        """Whether an earlier attempt finished the line; then it is done."""
        earlier = self._restored.pop(custom_id, None)
        if earlier is None:
            return False
        with self._lock:
            self._spool.place(position, earlier.place, succeeded=earlier.succeeded)
            if not earlier.succeeded:
                self._spool.append_retry(position, line)
        if earlier.succeeded:
            self.tally.success(read_answer(earlier.body))
        else:
            self.tally.failure(earlier.code)
        self._done += 1
        return True

    def flush(self) -> None:
        """Write the finished lines since the last segment as a segment. A crash before it loses them, none after."""
        with self._lock:
            end = self._spool.size
            lines = self._spool.read(self._flushed, end)
        if not lines:
            return
        key = self._layout.segment(self.number, self._me.attempt, self._segments)
        self._store.write(key, lines)
        self._segments += 1
        self._flushed = end

    def commit(self) -> Totals:
        """Write the shard's files in input order and then its record. The record is the commit: the first one counts.

        Returns the totals of the record that counts, which another attempt may have written.
        """
        with self._lock:
            files = {kind: self._upload(kind) for kind in (RESULTS, ERRORS, RETRY)}
        record = ShardRecord(
            shard=self.number,
            run=self._me.run,
            index=self._me.index,
            attempt=self._me.attempt,
            lines=self.shard.lines,
            totals=self.tally.totals(),
            started_at=self._started_at,
            finished_at=self._clock(),
            results=files[RESULTS],
            errors=files[ERRORS],
            retry=files[RETRY],
        )
        key = self._layout.record(self.number)
        try:
            self._store.write(key, encode_record(record), if_none_match=self._exclusive)
        except PreconditionFailed:
            winner = decode_record(self._store.read(key), ShardRecord)
            if winner.attempt != self._me.attempt:
                logger.info("shard %d was committed by another attempt", self.number)
                self._store.delete(file.key for file in files.values() if file is not None)
            record = winner
        return record.totals

    def _upload(self, kind: str) -> ShardFile | None:
        ordered = self._spool.ordered(kind)
        if ordered is None:
            return None
        key = self._layout.shard_file(self.number, self._me.attempt, kind)
        self._store.write_file(key, ordered.path)
        return ShardFile(key, ordered.bytes, ordered.lines)

    def discard(self) -> None:
        """Give the spool's disk back."""
        with self._lock:
            self._spool.discard()
