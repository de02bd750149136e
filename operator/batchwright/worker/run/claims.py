"""Which shard a worker takes next.

First what an earlier pod of the same index had claimed and not committed, then the index's own part of the file, then
whatever nobody has claimed. A claim is an object written by conditional PUT. It has no lease: an index has one pod at a
time. On a store without conditional PUT no claim can be trusted, so each index keeps to its own part; its claims only
tell its successors what was begun.

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
from batchwright.batchfile.shard_record import ClaimRecord, OpeningRecord
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
    """A shard to do. `resumed`: something of earlier work on it may exist."""

    shard: int
    resumed: bool
    first: OpeningRecord | None = None
    """Of a shard that was claimed before: by whom."""


@dataclass(frozen=True, slots=True)
class _StandingClaim:
    """A claim as it stands in the store."""

    record: ClaimRecord
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
        begun = self._begun()
        to_do = [shard for shard in self._own_part() if shard not in done]
        claims = self._claims_of(self._claimed().intersection(to_do))
        for shard in to_do:
            if shard in claims:
                yield self._resumed(shard, claims[shard])
            else:
                self._write_claim(shard)
                yield Claimed(shard, shard in begun)

    def _all(self) -> Iterator[Claimed]:
        done = self._done()
        begun = self._begun()
        claims = self._claims_of(self._claimed() - done)
        for shard, one in claims.items():
            if one.record.index == self._me.index:
                yield self._resumed(shard, one)
        for shard in self._claim_unclaimed(done | claims.keys()):
            yield Claimed(shard, shard in begun)
        for shard, one in claims.items():
            if one.record.index >= self._me.workers and self._claim(shard, instead_of=one):
                yield self._resumed(shard, one)

    def _resumed(self, shard: int, claim: _StandingClaim) -> Claimed:
        return Claimed(shard, resumed=True, first=OpeningRecord(self._me.run, claim.record.index, claim.record.attempt))

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

    def _begun(self) -> set[int]:
        """Shards of which earlier work, in this run, another or another BatchJob, has left something."""
        layout = self._layout
        kinds = (layout.shard_of_segment, layout.shard_of_opening, layout.shard_of_earlier_part)

        def shard_of(key: str) -> int | None:
            return next((found for kind in kinds if (found := kind(key)) is not None), None)

        return self._shards_under(layout.segments, shard_of)

    def _shards_under(self, prefix: str, shard_of: Callable[[str], int | None]) -> set[int]:
        """Shards of the plan that have an object there. Keys that are none of ours are left alone."""
        found = (shard_of(info.key) for info in self._store.list(prefix))
        return {shard for shard in found if shard is not None and shard < self._shards}

    def _claims_of(self, shards: Collection[int]) -> dict[int, _StandingClaim]:
        with ThreadPoolExecutor(READERS) as readers:
            return dict(zip(shards, readers.map(self._read_claim, shards), strict=True))

    def _read_claim(self, shard: int) -> _StandingClaim:
        fetched = self._store.fetch(self._layout.claim(self._me.run, shard))
        return _StandingClaim(decode_record(fetched.data, ClaimRecord), fetched.info.etag)

    def _claim(self, shard: int, instead_of: _StandingClaim | None = None) -> bool:
        try:
            if instead_of is None:
                self._write_claim(shard, if_none_match=True)
            else:
                self._write_claim(shard, if_match=instead_of.etag)
        except PreconditionFailed:
            # It may be this pod's own claim, whose answer was lost on the way.
            return self._read_claim(shard).record.attempt == self._me.attempt
        return True

    def _write_claim(self, shard: int, *, if_none_match: bool = False, if_match: str | None = None) -> None:
        data = encode_record(ClaimRecord(index=self._me.index, attempt=self._me.attempt))
        key = self._layout.claim(self._me.run, shard)
        self._store.write(key, data, if_none_match=if_none_match, if_match=if_match)
