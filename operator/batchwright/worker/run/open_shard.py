"""A shard that is being worked on: its finished lines, its counts, its segments, its commit.

The event loop delivers lines while threads restore, flush and commit. Whoever touches the spool holds `_spool_lock`,
which nobody keeps over a storage call, so that the loop never waits for one.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from batchwright.batchfile.answer import read_answer
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.origin_record import is_final
from batchwright.batchfile.plan_record import RecordError, Shard, decode_record, encode_record
from batchwright.batchfile.result_line import (
    FinishedLine,
    failure_line,
    in_one_line,
    is_success,
    line_number_of,
    read_finished_line,
    request_id_of,
    result_line,
)
from batchwright.batchfile.shard_record import (
    ERRORS,
    RESULTS,
    RETRY,
    OpeningRecord,
    ShardFile,
    ShardRecord,
    Totals,
)
from batchwright.storage.errors import PreconditionFailed
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.earlier_part import earlier_lines
from batchwright.worker.run.openings import WORKER_FAILED, Openings, given_up_message, is_given_up
from batchwright.worker.run.spool import Place, Spool, SpooledFile
from batchwright.worker.run.tally import Tally, subtract_totals
from batchwright.worker.server.verdicts import Answered, Failed, Outcome

logger = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 8 << 20
"""A segment is larger only where a single line is. What piled up while the store was away makes several."""


@dataclass(frozen=True, slots=True)
class _Restored:
    """A line that an earlier attempt finished, and where it lies in the spool."""

    place: Place
    succeeded: bool


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
        resumed: bool = False,
    ) -> None:
        """`exclusive`: the store honours conditional PUT, so that one record alone can be the commit. `resumed`: as in
        `Claimed`.
        """
        self.number = number
        self.shard = shard
        self.tally = Tally()
        self._reused = Tally()
        self._fingerprint = fingerprint
        self._store = store
        self._layout = layout
        self._me = identity
        self._exclusive = exclusive
        self._clock = clock
        self._started_at = clock()
        self._spool = Spool(folder, shard.lines)
        self._spool_lock = threading.Lock()
        self._discarded = False
        self._fed = False
        self._done = 0
        self._restored: dict[str, _Restored] = {}
        self._openings = Openings(store, layout, identity, number)
        self._opened = not resumed
        self._kills = 0
        self._flushing = threading.Lock()
        self._flushed = 0
        self._segments = 0

    @property
    def complete(self) -> bool:
        """Whether every line has an outcome."""
        return self._fed and self._done == self.shard.lines

    @property
    def worked(self) -> Totals:
        """The counts by now, without what stands from an earlier BatchJob: that is counted from the plan on."""
        return subtract_totals(self.tally.totals(), self._reused.totals())

    @property
    def unflushed(self) -> int:
        """Bytes of finished lines that are in no segment yet."""
        return self._spool.size - self._flushed

    @property
    def kills(self) -> int:
        """Attempts in a row, before this one, that were killed without finishing a line of it. Known by `restore`."""
        return self._kills

    @property
    def opened(self) -> bool:
        """Whether it stands in the store that this attempt is at it, by its claim or by the record of its opening."""
        return self._opened

    @property
    def suspect(self) -> bool:
        """Whether a worker was killed over it, and this attempt has kept nothing of it yet that says otherwise."""
        return self._kills > 0 and self._segments == 0

    @property
    def given_up(self) -> Failed | None:
        """What becomes of its lines that are not finished, where it has killed its worker too often; else None."""
        if not is_given_up(self._kills):
            return None
        return Failed(WORKER_FAILED, given_up_message(self.number, self._kills))

    def restore(self, first: OpeningRecord | None = None) -> None:
        """Take the lines in the segments of earlier attempts as done, and those that stand from an earlier BatchJob.

        To be called before the first line is delivered; which positions they have shows when the input is read. `first`
        is whoever claimed the shard before.

        Raises:
            StorageError: they can't be read. It may be called again.
            RecordError: a segment, an earlier result or the record of an opening is damaged.
        """
        openings = []
        for info in self._store.list(self._layout.shard_segments(self.number)):
            if self._layout.shard_of_segment(info.key) == self.number:
                self._restore_segment(info.key)
            elif self._layout.shard_of_earlier_part(info.key) == self.number:
                self._restore_earlier_part(info.key)
            elif self._layout.shard_of_opening(info.key) == self.number:
                openings.append(info.key)
        if self._restored:
            logger.info("shard %d goes on with %d finished lines", self.number, len(self._restored))
        self._kills = self._openings.kills(openings, first, finished=len(self._restored))

    def record_opening(self) -> None:
        """Say that this attempt goes on with it, so that its successor finds who was killed over it. After `restore`,
        and before the first line is sent.

        Raises:
            StorageError: it may be called again.
        """
        self._openings.write(finished=len(self._restored), kills=self._kills)
        self._opened = True

    def _restore_segment(self, key: str) -> None:
        for line in self._store.read(key).split(b"\n"):
            try:
                if line:
                    self._restore_line(line)
            except ValueError as error:
                raise RecordError(f"the segment {self._store.uri(key)} is damaged: {error}") from error

    def _restore_earlier_part(self, key: str) -> None:
        for line in earlier_lines(self._store, key):
            try:
                finished = read_finished_line(line)
                if finished.succeeded or is_final(finished.code):
                    self._keep(line, finished, self.tally, self._reused)
            except ValueError as error:
                raise RecordError(f"what {self._store.uri(key)} names is damaged: {error}") from error

    def _restore_line(self, line: bytes) -> None:
        self._keep(line, read_finished_line(line), self.tally)

    def _keep(self, line: bytes, finished: FinishedLine, *tallies: Tally) -> None:
        if finished.custom_id in self._restored:
            return  # two attempts finished it; one answer counts
        reading = read_answer(finished.body) if finished.succeeded else None
        for tally in tallies:
            if reading is not None:
                tally.success(reading)
            else:
                tally.failure(finished.code)
        with self._spool_lock:
            self._restored[finished.custom_id] = _Restored(self._spool.append(line), finished.succeeded)
            self._flushed = self._spool.size

    def take_restored(self, *, position: int, custom_id: str, line: bytes) -> bool:
        """Whether an earlier attempt finished the line; then it is done."""
        earlier = self._restored.pop(custom_id, None)
        if earlier is None:
            return False
        with self._spool_lock:
            self._assign(position, earlier.place, line, succeeded=earlier.succeeded)
        return True

    def end_of_input(self) -> None:
        """Every line of the shard has been read, and is queued or done.

        Raises:
            RecordError: the segments hold lines that the shard doesn't.
        """
        if self._restored:
            raise self._of_another_input()
        self._fed = True

    def _of_another_input(self) -> RecordError:
        where = self._store.uri(self._layout.shard_segments(self.number))
        return RecordError(f"the segments under {where} hold {len(self._restored)} lines of another input")

    def end_without_input(self, outcome: Failed) -> None:
        """The input is gone or changed. What earlier attempts finished is kept, in the order of the line numbers in its
        ids. The other requests are counted with the outcome, and have no line. Instead of the first `take_restored`.

        Raises:
            RecordError: the segments hold more lines than the shard.
        """
        lines_left = self.shard.lines - len(self._restored)
        if lines_left < 0:
            raise self._of_another_input()
        with self._spool_lock:
            places = sorted(self._restored.values(), key=lambda one: line_number_of(self._spool.line(one.place)))
            for position, earlier in enumerate(places):
                self._spool.assign(position, earlier.place, succeeded=earlier.succeeded)
        self._restored.clear()
        for _ in range(lines_left):
            self.tally.failure(outcome.code)
        self._done = self.shard.lines
        self._fed = True

    def deliver(self, *, position: int, line_number: int, custom_id: str, line: bytes, outcome: Outcome) -> None:
        """Take the outcome of a line. `position` counts the shard's requests from 0; `line` is the input's."""
        request_id = request_id_of(self._fingerprint, line_number)
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
        with self._spool_lock:
            self._assign(position, self._spool.append(finished), line, succeeded=succeeded)
        if isinstance(outcome, Answered) and succeeded:
            self.tally.success(outcome.reading)
        else:
            self.tally.failure(str(outcome.status) if isinstance(outcome, Answered) else outcome.code)

    def _assign(self, position: int, place: Place, line: bytes, *, succeeded: bool) -> None:
        self._spool.assign(position, place, succeeded=succeeded)
        if not succeeded:
            self._spool.append_retry(position, in_one_line(line))
        self._done += 1

    def flush(self) -> None:
        """Write the finished lines since the last segment as segments. A crash before it loses them, none after.

        Raises:
            StorageError: what is left is written by the next call.
        """
        # One at a time: a call that was given up may still be running in its thread.
        with self._flushing:
            while lines := self._next_lines():
                self._store.write(self._layout.segment(self.number, self._me.attempt, self._segments), lines)
                self._segments += 1
                self._flushed += len(lines)

    def _next_lines(self) -> bytes:
        with self._spool_lock:
            if self._discarded:
                return b""
            return self._spool.whole_lines(self._flushed, SEGMENT_BYTES)

    def commit(self) -> Totals | None:
        """Write the shard's files in input order and then its record. The record is the commit: the first one counts.

        Returns the totals of the record that counts, without what stands from an earlier BatchJob; None where another
        worker wrote it, who reports them as its own.

        Raises:
            StorageError: it may be called again.
        """
        record = self._write_files()
        key = self._layout.record(self.number)
        try:
            self._store.write(key, encode_record(record), if_none_match=self._exclusive)
        except PreconditionFailed:
            winner = decode_record(self._store.read(key), ShardRecord)
            if winner.attempt != self._me.attempt:
                self._lose(record, winner)
            record = winner
        if (record.run, record.index) != (self._me.run, self._me.index):
            return None
        return subtract_totals(record.totals, self._reused.totals())

    def _write_files(self) -> ShardRecord:
        with self._spool_lock:
            spooled = {kind: self._spool.ordered(kind) for kind in (RESULTS, ERRORS, RETRY)}
        return ShardRecord(
            shard=self.number,
            run=self._me.run,
            index=self._me.index,
            attempt=self._me.attempt,
            lines=self.shard.lines,
            totals=self.tally.totals(),
            started_at=self._started_at,
            finished_at=self._clock(),
            results=self._upload(RESULTS, spooled[RESULTS]),
            errors=self._upload(ERRORS, spooled[ERRORS]),
            retry=self._upload(RETRY, spooled[RETRY]),
        )

    def _upload(self, kind: str, file: SpooledFile | None) -> ShardFile | None:
        if file is None:
            return None
        key = self._layout.shard_file(self.number, self._me.attempt, kind)
        self._store.write_file(key, file.path)
        return ShardFile(key, file.bytes, file.lines)

    def _lose(self, mine: ShardRecord, winner: ShardRecord) -> None:
        logger.info("shard %d was committed by attempt %s", self.number, winner.attempt)
        self._store.delete(file.key for file in (mine.results, mine.errors, mine.retry) if file is not None)

    def discard(self) -> None:
        """Give the spool's disk back. What is not committed or flushed by now is lost."""
        with self._spool_lock:
            self._discarded = True
            self._spool.discard()
