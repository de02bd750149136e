"""The law of the progress object: whoever writes it, and whoever dies, no count ever falls, and none is of work undone.

Everything is real but the time: a store on a volume, and workers that take their turns in any order.
"""

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.batchfile.counts import ProgressCounts
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, Shard, decode_record, encode_record
from batchwright.batchfile.progress_object import ProgressRecord
from batchwright.batchfile.shard_record import Totals, WorkerState
from batchwright.storage.file import FileStore
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.progress_keeper import ProgressKeeper

LAYOUT = WorkLayout("out/job/.batchwright/0123456789abcdef/")
OBJECT = "out/job/progress.json"
WORKERS, LINES, SECONDS = 3, 30, 5.0

works = st.tuples(st.just("work"), st.integers(0, WORKERS - 1), st.integers(1, 3))
commits = st.tuples(st.just("commit"), st.integers(0, WORKERS - 1), st.just(0))
kills = st.tuples(st.just("kill"), st.integers(0, WORKERS - 1), st.integers(0, 3))
turns = st.tuples(st.just("turn"), st.integers(0, WORKERS - 1), st.just(0))
zombies = st.tuples(st.just("zombie"), st.integers(0, 9), st.just(0))
times = st.tuples(st.just("time"), st.just(0), st.integers(1, 5))
histories = st.lists(works | commits | kills | turns | turns | zombies | times, min_size=15, max_size=40)


@dataclass
class Index:
    """What one index has done, and what its present pod has found again of it."""

    keeper: ProgressKeeper
    committed: int = 0
    kept: int = 0
    found: int = 0


@dataclass
class World:
    store: FileStore
    conditional_put: bool
    now: float = 0.0
    pods: int = 0
    indexes: list[Index] = field(default_factory=list)
    gone: list[tuple[Index, WorkerState]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.indexes = [Index(self.keeper(index)) for index in range(WORKERS)]

    def keeper(self, index: int) -> ProgressKeeper:
        self.pods += 1
        plan = PlanRecord(
            *("0123456789abcdef", PlannedInput("file:///in", "etag", 1), "/v1/embeddings", "m", LINES, LINES),
            conditional_put=self.conditional_put,
            shards=(Shard(0, 1, 1, LINES),),
        )
        return ProgressKeeper(
            store=self.store,
            layout=LAYOUT,
            key=OBJECT,
            plan=plan,
            identity=WorkerIdentity(1, index, WORKERS, f"attempt-{self.pods}"),
            seconds=SECONDS,
            clock=lambda: self.now,
        )

    @property
    def done(self) -> int:
        return sum(one.committed + one.kept for one in self.indexes)

    def state(self, index: int) -> WorkerState:
        one = self.indexes[index]
        found = ProgressCounts(one.found, one.found * 7, one.found)
        return WorkerState(1, index, totals=Totals(one.committed), open_shards=found)

    def step(self, what: str, index: int, amount: int) -> None:
        one = self.indexes[index % WORKERS]
        match what:
            case "work":
                amount = min(amount, LINES - self.done)
                one.kept, one.found = one.kept + amount, one.kept + amount
            case "commit":
                one.committed, one.kept, one.found = one.committed + one.kept, 0, 0
            case "kill":  # what it kept is still there, and its successor has found a part of it again
                self.gone.append((Index(one.keeper), self.state(index)))
                one.keeper, one.found = self.keeper(index), min(amount, one.kept)
            case "turn":
                self.store.write(LAYOUT.worker(1, index), encode_record(self.state(index)))
                one.keeper.turn(self.state(index))
            case "zombie" if self.gone:  # a pod that was cut off takes another turn with what it knew
                late, state = self.gone[index % len(self.gone)]
                late.keeper.turn(state)
            case "time":
                self.now += amount * SECONDS

    def told(self) -> ProgressCounts | None:
        if next(self.store.list(OBJECT), None) is None:
            return None
        found = json.loads(self.store.read(OBJECT))
        return ProgressCounts(found["lines_processed"], found["total_tokens_so_far"], found["num_responses_so_far"])


@settings(max_examples=100)
@given(history=histories, conditional_put=st.booleans())
def test_no_count_falls_and_none_is_of_work_undone(history: list[tuple[str, int, int]], conditional_put: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(FileStore(Path(folder)), conditional_put)
        before = ProgressCounts()
        for what, index, amount in history:
            world.step(what, index, amount)
            told = world.told()
            if told is not None:
                assert told.at_least(before) == told
                assert told.lines_processed <= world.done
                before = told


@settings(max_examples=30)
@given(history=histories)
def test_whoever_is_left_tells_everything_in_the_end(history: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(FileStore(Path(folder)), conditional_put=True)
        for step in history:
            world.step(*step)
        for index in range(WORKERS):
            world.step("commit", index, 0)
            world.step("turn", index, 0)
        for _ in range(2):
            world.step("time", 0, 5)
            world.step("turn", WORKERS - 1, 0)
        told = world.told()
        assert told is not None
        assert (told.lines_processed, told.num_responses) == (world.done, world.done)
        record = decode_record(world.store.read(LAYOUT.progress), ProgressRecord)
        assert record.index == WORKERS - 1, "the others are silent"
