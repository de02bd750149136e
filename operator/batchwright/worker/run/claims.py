"""Which shard a worker takes next.

First what an earlier pod of the same index had claimed and not committed, then the index's own part of the file, then
whatever nobody has claimed. A claim is an object written by conditional PUT. It has no lease: an index has one pod at a
time. On a store without conditional PUT no claim can be trusted, so each index keeps to its own part.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from batchwright.batchfile.layout import WorkLayout, shard_of
from batchwright.batchfile.plan_record import decode_record, encode_record
from batchwright.batchfile.shard_record import ClaimRecord
from batchwright.storage.errors import PreconditionFailed
from batchwright.storage.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """A worker of a run. `attempt` is new for every pod."""

    run: int
    index: int
    workers: int
    attempt: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A shard to do. `resumed`: segments of earlier work on it may exist."""

    shard: int
    resumed: bool


def own_part(shards: int, index: int, workers: int) -> range:
    """The contiguous part of all shards that an index begins with; the parts differ by one shard at most."""
    return range(shards * index // workers, shards * (index + 1) // workers)


class ShardQueue:
    """Gives out shards, one at a time. Synchronous; used by one thread at a time."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        layout: WorkLayout,
        identity: WorkerIdentity,
        shards: int,
        exclusive: bool,
        choose: Callable[[list[int]], int] = random.choice,
    ) -> None:
        """`exclusive`: the store honours conditional PUT. `choose` picks one of the shards that are left."""
        self._store = store
        self._layout = layout
        self._me = identity
        self._shards = shards
        self._exclusive = exclusive
        self._choose = choose
        self._shards_to_do: Iterator[Claimed] | None = None

    def take(self) -> Claimed | None:
        """The next shard to do, claimed; None when nothing is left."""
        if self._shards_to_do is None:
            self._shards_to_do = self._all()
        return next(self._shards_to_do, None)

    def _all(self) -> Iterator[Claimed]:
        committed = self._numbers(self._layout.records)
        with_segments = self._numbers(self._layout.segments)
        part = own_part(self._shards, self._me.index, self._me.workers)
        if not self._exclusive:
            yield from (Claimed(shard, shard in with_segments) for shard in part if shard not in committed)
            return
        claimed = self._numbers(self._layout.claims(self._me.run))
        for shard in sorted(claimed - committed):
            if self._is_mine(shard):
                yield Claimed(shard, resumed=True)
        for shard in part:
            if shard not in claimed and shard not in committed and self._claim(shard):
                yield Claimed(shard, shard in with_segments)
        yield from self._unclaimed(committed, with_segments)

    def _unclaimed(self, committed: set[int], with_segments: set[int]) -> Iterator[Claimed]:
        """What other indexes have not come to yet."""
        while left := set(range(self._shards)) - committed - self._numbers(self._layout.claims(self._me.run)):
            # What is left is known until somebody else turns out to be at it too.
            while left:
                shard = self._choose(sorted(left))
                left.remove(shard)
                if not self._claim(shard):
                    break
                yield Claimed(shard, shard in with_segments)

    def _numbers(self, prefix: str) -> set[int]:
        return {shard_of(info.key, prefix) for info in self._store.list(prefix)}

    def _claim(self, shard: int) -> bool:
        claim = ClaimRecord(index=self._me.index, attempt=self._me.attempt)
        try:
            self._store.write(self._layout.claim(self._me.run, shard), encode_record(claim), if_none_match=True)
        except PreconditionFailed:
            # It may be this pod's own claim, whose answer was lost on the way.
            return self._read_claim(shard).attempt == self._me.attempt
        return True

    def _is_mine(self, shard: int) -> bool:
        return self._read_claim(shard).index == self._me.index

    def _read_claim(self, shard: int) -> ClaimRecord:
        return decode_record(self._store.read(self._layout.claim(self._me.run, shard)), ClaimRecord)
