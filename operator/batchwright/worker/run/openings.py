"""Shards that kill their worker: how often in a row it happened, and when it is enough.

A shard that is found unfinished was left by an earlier attempt. Either that attempt left in good order, which its
worker's state says, or it was killed. Where the model server is away, the state says the same of all that is open: no
answer comes then that could be too much for a worker. Each attempt that goes on with such a shard first writes a record
of it, beside the shard's segments. The first attempt writes nothing, since its claim says as much: what doesn't get
killed costs no call to the store.

An attempt has several shards open at once, and only one of them may be to blame. So a shard is opened alone before
the kill that would be the last one.
"""

import logging
from typing import Final

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import decode_record, encode_record
from batchwright.batchfile.shard_record import OpeningRecord, WorkerState
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.run.claims import WorkerIdentity

logger = logging.getLogger(__name__)

MOST_KILLS: Final = 3
"""Kills in a row, none of which let a line of the shard be finished, after which it is given up."""

WORKER_FAILED: Final = "worker_failed"
"""Code of the lines that were not finished by then."""


def kills_in_a_row(last: OpeningRecord | None, *, finished: int, left: bool) -> int:
    """Attempts in a row that were killed without finishing a line of a shard, the last one included.

    `last` is the last attempt's opening, None where nothing is known of it; `finished` counts the lines that are
    finished by now; `left`: the last attempt left in good order, which neither adds a kill nor forgives one.
    """
    if last is None or finished > last.finished:
        return 0
    return last.kills if left else last.kills + 1


def must_be_alone(kills: int) -> bool:
    """Whether a shard may be opened only where no other one is: its next kill would be the last."""
    return kills == MOST_KILLS - 1


def is_given_up(kills: int) -> bool:
    """Whether a shard has killed its worker too often."""
    return kills >= MOST_KILLS


def given_up_message(shard: int, kills: int) -> str:
    """What the error line of a request says that was not finished."""
    return (
        f"The worker was killed {kills} times in a row while it worked on this request's part of the input (shard"
        f" {shard}), without finishing a request of it, so the requests of it that are left were given up. Mostly the"
        " worker has too little memory (see the reason of the failed pods, and worker.resources), or one request of"
        " these makes it die: send those of the retry file again, with more memory or with a smaller"
        " sharding.linesPerShard."
    )


class Openings:
    """The openings of one shard, as they stand in the store."""

    def __init__(self, store: ObjectStore, layout: WorkLayout, identity: WorkerIdentity, shard: int) -> None:
        self._store = store
        self._layout = layout
        self._me = identity
        self._shard = shard
        self._number = 1

    def kills(self, keys: list[str], claim: OpeningRecord | None, *, finished: int) -> int:
        """See `kills_in_a_row`. `keys` are those of all openings; `claim` is the first one, as the claim tells it.

        Raises:
            StorageError, RecordError: what earlier attempts wrote can't be read.
        """
        last = claim
        if keys:
            key = max(keys)
            self._number = self._layout.number_of_opening(key) + 1
            last = decode_record(self._store.read(key), OpeningRecord)
        kills = kills_in_a_row(last, finished=finished, left=last is not None and self._left(last))
        if kills:
            logger.warning("shard %d: %d attempts in a row were killed without progress", self._shard, kills)
        return kills

    def _left(self, last: OpeningRecord) -> bool:
        key = self._layout.worker(last.run, last.index)
        if find(self._store, key) is None:
            return False
        return decode_record(self._store.read(key), WorkerState).left.get(self._shard) == last.attempt

    def write(self, *, finished: int, kills: int) -> None:
        """Say that this attempt goes on with the shard. It may be called again.

        Raises:
            StorageError: the storage refuses or is away.
        """
        record = OpeningRecord(self._me.run, self._me.index, self._me.attempt, finished, kills)
        self._store.write(self._layout.opening(self._shard, self._number, self._me.attempt), encode_record(record))
