"""Which shards a worker is given: each exactly once over all workers, whatever goes wrong on the way."""

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import ClaimRecord, OpeningRecord
from batchwright.storage.errors import StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.run.claims import Claimed, ShardQueue, WorkerIdentity, own_part

LAYOUT = WorkLayout("job/.batchwright/f/")


class LosingStore(FileStore):
    """A store whose answers to some writes get lost, after they were carried out or before."""

    def __init__(self, root: Path, *, carried_out: bool, times: int = 1) -> None:
        super().__init__(root)
        self._carried_out = carried_out
        self._times = times

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        if self._times:
            self._times -= 1
            if self._carried_out:
                super().write(key, data, if_none_match=if_none_match, if_match=if_match)
            raise StorageUnavailable("PutObject", self.uri(key), "the answer got lost")
        return super().write(key, data, if_none_match=if_none_match, if_match=if_match)


def worker(
    store: FileStore,
    index: int = 0,
    *,
    workers: int = 1,
    shards: int = 10,
    attempt: str = "",
    run: int = 1,
    exclusive: bool = True,
) -> ShardQueue:
    identity = WorkerIdentity(run, index, workers, attempt or f"attempt-{index}")
    return ShardQueue(
        store=store, layout=LAYOUT, identity=identity, shards=shards, exclusive=exclusive, choose=lambda left: left[0]
    )


def take_all(queue: ShardQueue) -> list[Claimed]:
    return list(iter(queue.take, None))


def claimed_before(shard: int, attempt: str, index: int = 0) -> Claimed:
    return Claimed(shard, resumed=True, first=OpeningRecord(run=1, index=index, attempt=attempt))


def numbers(claimed: Iterable[Claimed]) -> list[int]:
    return [one.shard for one in claimed]


def commit(store: FileStore, *shards: int) -> None:
    for shard in shards:
        store.write(LAYOUT.record(shard), b"{}")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    (tmp_path / "volume").mkdir()
    return FileStore(tmp_path / "volume")


@given(shards=st.integers(0, 10_000), workers=st.integers(1, 1000))
def test_own_parts_cover_every_shard_once_and_differ_by_one_at_most(shards: int, workers: int) -> None:
    parts = [own_part(shards, index, workers) for index in range(workers)]
    assert [shard for part in parts for shard in part] == list(range(shards))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@settings(max_examples=15)
@given(shards=st.integers(0, 40), workers=st.integers(1, 6))
def test_workers_side_by_side_take_every_shard_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, shards: int, workers: int
) -> None:
    store = FileStore(tmp_path_factory.mktemp("volume"))
    taken: list[list[int]] = [[] for _ in range(workers)]
    start = threading.Barrier(workers)

    def work(index: int) -> None:
        queue = ShardQueue(
            store=store,
            layout=LAYOUT,
            identity=WorkerIdentity(1, index, workers, f"attempt-{index}"),
            shards=shards,
            exclusive=True,
        )
        start.wait(30)
        taken[index] = numbers(take_all(queue))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(shard for some in taken for shard in some) == list(range(shards))


def test_the_own_part_comes_first_in_order(store: FileStore) -> None:
    assert numbers(take_all(worker(store, 1, workers=2)))[:5] == [5, 6, 7, 8, 9]


def test_a_worker_that_is_done_helps_the_others(store: FileStore) -> None:
    fast, slow = worker(store, 0, workers=2), worker(store, 1, workers=2)
    first = slow.take()
    assert numbers(take_all(fast)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert first == Claimed(5, resumed=False)
    assert slow.take() is None


def test_committed_shards_are_not_taken(store: FileStore) -> None:
    commit(store, 0, 3, 9)
    assert numbers(take_all(worker(store))) == [1, 2, 4, 5, 6, 7, 8]


def test_the_next_pod_of_an_index_goes_on_with_what_the_last_one_had_claimed(store: FileStore) -> None:
    last = worker(store, 0, workers=2, attempt="last")
    numbers([last.take() or pytest.fail("a shard") for _ in range(3)])
    commit(store, 1)
    taken = take_all(worker(store, 0, workers=2, attempt="next"))
    assert taken[:2] == [claimed_before(0, "last"), claimed_before(2, "last")]
    assert taken[2] == Claimed(3, resumed=False)
    assert sorted(numbers(taken)) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_another_index_keeps_its_claims(store: FileStore) -> None:
    theirs = numbers(take_all(worker(store, 1, workers=2, shards=4)))
    assert sorted(theirs) == [0, 1, 2, 3]
    assert take_all(worker(store, 0, workers=2, shards=4)) == []


def test_claims_of_an_index_that_is_no_more_are_taken_over_at_the_end(store: FileStore) -> None:
    gone = worker(store, 7, workers=8, shards=8)
    assert gone.take() == Claimed(7, resumed=False)
    taken = take_all(worker(store, 0, workers=1, shards=8, attempt="new"))
    assert taken[-1] == claimed_before(7, "attempt-7", index=7)
    assert sorted(numbers(taken)) == list(range(8))


def test_a_claim_is_taken_over_by_one_worker_only(store: FileStore) -> None:
    take_all(worker(store, 7, workers=8, shards=8))
    both = [worker(store, index, workers=2, shards=8) for index in (0, 1)]
    taken = Counter[int]()
    for _ in range(8):
        taken.update(numbers(claimed for queue in both if (claimed := queue.take())))
    assert taken == Counter(range(8))


def test_a_repair_claims_anew(store: FileStore) -> None:
    take_all(worker(store, shards=3))
    commit(store, 0, 2)
    assert numbers(take_all(worker(store, shards=3, run=2))) == [1]


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize(
    "key", [LAYOUT.segment(1, "earlier", 0), LAYOUT.opening(1, 1, "earlier"), LAYOUT.earlier_part(1)]
)
def test_a_shard_of_which_earlier_work_left_something_is_resumed(store: FileStore, exclusive: bool, key: str) -> None:
    store.write(key, b"{}\n")
    assert take_all(worker(store, shards=3, exclusive=exclusive)) == [
        Claimed(0, resumed=False),
        Claimed(1, resumed=True),
        Claimed(2, resumed=False),
    ]


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_claim_whose_answer_got_lost_is_given_out_by_the_next_call(store: FileStore, carried_out: bool) -> None:
    losing = LosingStore(Path(store.uri("").removeprefix("file://")), carried_out=carried_out)
    queue = worker(losing, shards=3)
    with pytest.raises(StorageUnavailable):
        queue.take()
    assert sorted(numbers(take_all(queue))) == [0, 1, 2]


def test_after_a_lost_answer_no_shard_is_given_out_twice(store: FileStore) -> None:
    losing = LosingStore(Path(store.uri("").removeprefix("file://")), carried_out=True, times=0)
    queue = worker(losing, shards=5)
    first = [queue.take(), queue.take()]
    losing._times = 1
    with pytest.raises(StorageUnavailable):
        queue.take()
    rest = take_all(queue)
    assert sorted(numbers([one for one in (*first, *rest) if one])) == [0, 1, 2, 3, 4]


def test_a_412_for_ones_own_claim_is_a_claim(store: FileStore) -> None:
    store.write(LAYOUT.claim(1, 0), encode_record(ClaimRecord(index=0, attempt="me")))
    queue = worker(store, shards=1, attempt="me")
    # It is found as a claim of this index; what counts is that it is given out once.
    assert numbers(take_all(queue)) == [0]


def test_without_conditional_put_each_index_keeps_to_its_part(store: FileStore) -> None:
    commit(store, 1)
    taken = [numbers(take_all(worker(store, index, workers=3, exclusive=False))) for index in range(3)]
    assert taken == [[0, 2], [3, 4, 5], [6, 7, 8, 9]]


def test_without_conditional_put_a_claim_still_tells_the_next_pod_what_was_begun(store: FileStore) -> None:
    last = worker(store, exclusive=False, shards=3, attempt="last")
    assert last.take() == Claimed(0, resumed=False)
    assert take_all(worker(store, exclusive=False, shards=3, attempt="next")) == [
        claimed_before(0, "last"),
        Claimed(1, resumed=False),
        Claimed(2, resumed=False),
    ]


@pytest.mark.parametrize("exclusive", [True, False])
def test_what_others_put_under_the_prefixes_is_left_alone(tmp_path: Path, exclusive: bool) -> None:
    store = FileStore(tmp_path)
    for prefix in (LAYOUT.records, LAYOUT.claims(1), LAYOUT.segments):
        for name in ("notes.txt", "000003.bak", ".marker", "999999"):
            store.write(prefix + name, b"not ours")
    assert take_all(worker(store, shards=4, exclusive=exclusive)) == [Claimed(n, resumed=False) for n in range(4)]
