"""Which shard a worker takes next.

First what an earlier pod of the same index had claimed and not committed, then the index's own part of the file, then
whatever nobody has claimed. A claim is an object written by conditional PUT. It has no lease: an index has one pod at a
time. On a store without conditional PUT no claim can be trusted, so each index keeps to its own part.

A BatchJob that is applied again may have fewer workers than the one before it: what an index that is no more had
claimed is taken over by the others, at the end.
"""

import random
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import decode_record, encode_record
from batchwright.batchfile.shard_record import ClaimRecord
from batchwright.storage.errors import PreconditionFailed
from batchwright.storage.protocol import ObjectStore

READERS: Final = 16
"""Claims read at once."""


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


@dataclass(frozen=True, slots=True)
class _StandingClaim:
    """A claim as it stands in the store."""

    index: int
    attempt: str
    etag: str


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
        self._taken: set[int] = set()
        self._shards_to_do: Iterator[Claimed] | None = None

    def take(self) -> Claimed | None:
        """The next shard to do, claimed; None when nothing is left.

        Raises:
            StorageError: the next call looks again, and finds a claim that was made although its answer got lost.
            RecordError: a claim can't be read.
        """
        if self._shards_to_do is None:
            self._shards_to_do = self._all() if self._exclusive else self._dealt_out()
        try:
            claimed = next(self._shards_to_do, None)
        except Exception:
            self._shards_to_do = None  # a generator that raised is at its end
            raise
        if claimed is not None:
            self._taken.add(claimed.shard)
        return claimed

    def _dealt_out(self) -> Iterator[Claimed]:
        done = self._done()
        with_segments = self._with_segments()
        yield from (Claimed(shard, shard in with_segments) for shard in self._own_part() if shard not in done)

    def _all(self) -> Iterator[Claimed]:
        done = self._done()
        with_segments = self._with_segments()
        claims = self._claims_of(self._claimed() - done)
        yield from (Claimed(shard, resumed=True) for shard, one in claims.items() if one.index == self._me.index)
        for shard in self._claim_unclaimed(done | claims.keys()):
            yield Claimed(shard, shard in with_segments)
        for shard, one in claims.items():
            if one.index >= self._me.workers and self._claim(shard, instead_of=one):
                yield Claimed(shard, resumed=True)

    def _claim_unclaimed(self, gone: set[int]) -> Iterator[int]:
        """Claim what is not `gone`: the own part in order, then what other indexes have not come to yet, by chance."""
        for shard in self._own_part():
            if shard not in gone and self._claim(shard):
                yield shard
        gone |= set(self._own_part())
        while left := set(range(self._shards)) - gone - self._claimed():
            # What is left is known until somebody else turns out to be at it too.
            while left:
                shard = self._choose(sorted(left))
                left.remove(shard)
                gone.add(shard)
                if not self._claim(shard):
                    break
                yield shard

    def _own_part(self) -> range:
        return own_part(self._shards, self._me.index, self._me.workers)

    def _done(self) -> set[int]:
        """Shards that are committed, or that this worker is at."""
        return self._shards_under(self._layout.records, self._layout.shard_of_record) | self._taken

    def _claimed(self) -> set[int]:
        run = self._me.run
        return self._shards_under(self._layout.claims(run), lambda key: self._layout.shard_of_claim(key, run))

    def _with_segments(self) -> set[int]:
        return self._shards_under(self._layout.segments, self._layout.shard_of_segment)

    def _shards_under(self, prefix: str, shard_of: Callable[[str], int | None]) -> set[int]:
        """Shards of the plan that have an object there. Keys that are none of ours are left alone."""
        found = (shard_of(info.key) for info in self._store.list(prefix))
        return {shard for shard in found if shard is not None and shard < self._shards}

    def _claims_of(self, shards: Collection[int]) -> dict[int, _StandingClaim]:
        with ThreadPoolExecutor(READERS) as readers:
            return dict(zip(shards, readers.map(self._read_claim, shards), strict=True))

    def _read_claim(self, shard: int) -> _StandingClaim:
        fetched = self._store.fetch(self._layout.claim(self._me.run, shard))
        record = decode_record(fetched.data, ClaimRecord)
        return _StandingClaim(record.index, record.attempt, fetched.info.etag)

    def _claim(self, shard: int, instead_of: _StandingClaim | None = None) -> bool:
        key = self._layout.claim(self._me.run, shard)
        data = encode_record(ClaimRecord(index=self._me.index, attempt=self._me.attempt))
        try:
            if instead_of is None:
                self._store.write(key, data, if_none_match=True)
            else:
                self._store.write(key, data, if_match=instead_of.etag)
        except PreconditionFailed:
            # It may be this pod's own claim, whose answer was lost on the way.
            return self._read_claim(shard).attempt == self._me.attempt
        return True
