"""The law of a closing merge: whatever was done before, and however often the merge was killed, each request ends once.

Everything is real but the death of the process: a store on a volume that does nothing any more after so many steps.
"""

import itertools
import json
import random
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batchwright.api.reports import MergeReport
from batchwright.api.undone import Undone
from batchwright.api.worker_job import WorkerJob
from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, encode_record
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.merge import merge
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.server.verdicts import Answered, Failed, Outcome
from batchwright.worker.stage import Mounts, Stage, open_stage
from unit.batchfile.builders import check, good_line


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine dies here, so nothing needs to be on its disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


FINGERPRINT = "0123456789abcdef"
ANSWER = Answered(200, "r", b'{"usage":{"total_tokens":1}}', Reading(Usage(total_tokens=1), ()))
TIMEOUT = Failed("request_timeout", "late")


class Fate(Enum):
    """What a line had come to when the run was stopped."""

    UNDONE = "undone"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class History:
    """A job that was stopped. Committed shards have nothing undone: such lines of theirs count as succeeded."""

    fates: list[Fate]
    lines_per_shard: int
    committed: set[int]
    """Shards; those that the job doesn't have don't matter."""
    attempts: int
    """Each finished line of other shards stands in the segments of one of so many attempts, or of two."""
    blank_lines: set[int]
    """Before these requests."""
    seed: int

    def fate(self, number: int) -> Fate:
        fate = self.fates[number]
        done = number // self.lines_per_shard in self.committed
        return Fate.SUCCEEDED if done and fate is Fate.UNDONE else fate

    def ids(self, *fates: Fate) -> list[str]:
        return [custom_id(number) for number in range(len(self.fates)) if self.fate(number) in fates]

    def without_full_lines(self) -> list[int]:
        """Requests whose error lines or retry lines can only be made from the input."""
        open_shards = (n for n in range(len(self.fates)) if n // self.lines_per_shard not in self.committed)
        return [number for number in open_shards if self.fate(number) is not Fate.SUCCEEDED]

    @property
    def input(self) -> bytes:
        return b"".join(
            (b"\r\n" if number in self.blank_lines else b"") + line_of(number) + b"\n"
            for number in range(len(self.fates))
        )


def custom_id(number: int) -> str:
    return f"id-{number}"


def line_of(number: int) -> bytes:
    return good_line(custom_id(number))


HISTORIES = st.builds(
    History,
    fates=st.lists(st.sampled_from(Fate), min_size=1, max_size=30),
    lines_per_shard=st.integers(1, 8),
    committed=st.sets(st.integers(0, 8)),
    attempts=st.integers(1, 3),
    blank_lines=st.sets(st.integers(0, 30), max_size=4),
    seed=st.integers(0, 1000),
)


class Killed(BaseException):
    """The process is no more."""


class MortalStore(FileStore):
    """Makes so many steps; each change of the store is two, one before and one after it."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root)
        self._left = itertools.chain(range(steps), itertools.repeat(None))
        self._lock = threading.Lock()

    def _step(self) -> None:
        with self._lock:
            if next(self._left) is None:
                raise Killed

    def _alive(self, change: Callable[[], Any]) -> Any:
        self._step()
        result = change()
        self._step()
        return result

    def write(self, key: str, data: bytes, **conditions: Any) -> ObjectInfo:
        return self._alive(lambda: FileStore.write(self, key, data, **conditions))

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        return self._alive(lambda: FileStore.write_file(self, key, path))

    def join(self, key: str, pieces: Iterable[Any], **options: Any) -> ObjectInfo:
        return self._alive(lambda: FileStore.join(self, key, pieces, **options))

    def delete(self, keys: Iterable[str]) -> tuple[Any, ...]:
        return self._alive(lambda: FileStore.delete(self, keys))


def mortal(stage: Stage, steps: int) -> Stage:
    """The same stage in a process that dies after so many steps."""
    root = Path(stage.output_store.uri("").removeprefix("file://"))
    return replace(stage, output_store=MortalStore(root, steps))


def stopped(folder: Path, history: History) -> Stage:
    """The stage of a job in a folder that has this history."""
    stage = stage_in(folder)
    info = stage.input_store.write(stage.input_key, history.input)
    validator = check(history.input)
    assert validator.errors.count == 0
    shards = validator.index.shards(history.lines_per_shard, info.size)
    planned = PlannedInput(stage.job.batchjob.spec.input.uri, info.etag, info.size)
    plan = PlanRecord(
        FINGERPRINT, planned, "/v1/x", "m", len(history.fates), history.lines_per_shard, True, tuple(shards)
    )
    stage.output_store.write(stage.layout.work(FINGERPRINT).plan, encode_record(plan))
    chance = random.Random(history.seed)
    for number in range(len(shards)):
        if number in history.committed:
            commit(stage, plan, number, history, folder)
        else:
            keep(stage, plan, number, history, chance=chance, folder=folder)
    return stage


def stage_in(folder: Path) -> Stage:
    spec = {"input": {"uri": f"file://{folder}/in/input.jsonl"}, "output": {"uri": f"file://{folder}/out/"}}
    document = {"batchjob": {"metadata": {"name": "job"}, "spec": spec}, "serverUrl": "http://127.0.0.1:9"}
    nowhere = folder / "none"
    return open_stage(
        WorkerJob.model_validate_json(json.dumps(document)), Mounts(nowhere, nowhere, nowhere, folder / "spool")
    )


def opened(stage: Stage, plan: PlanRecord, number: int, folder: Path, attempt: str) -> OpenShard:
    return OpenShard(
        number=number,
        shard=plan.shards[number],
        fingerprint=FINGERPRINT,
        store=stage.output_store,
        layout=stage.layout.work(FINGERPRINT),
        identity=WorkerIdentity(1, 0, 1, attempt),
        folder=folder / f"worker-{attempt}-{number}",
        exclusive=True,
        clock=lambda: datetime.now(UTC),
    )


def deliver(shard: OpenShard, history: History, position: int) -> None:
    number = shard.number * history.lines_per_shard + position
    outcome: Outcome = ANSWER if history.fate(number) is Fate.SUCCEEDED else TIMEOUT
    blanks = sum(blank <= number for blank in history.blank_lines)
    shard.deliver(
        position=position,
        line_number=number + 1 + blanks,
        custom_id=custom_id(number),
        line=line_of(number),
        outcome=outcome,
    )


def commit(stage: Stage, plan: PlanRecord, number: int, history: History, folder: Path) -> None:
    shard = opened(stage, plan, number, folder, "worker")
    for position in range(plan.shards[number].lines):
        deliver(shard, history, position)
    shard.commit()
    shard.discard()


def keep(stage: Stage, plan: PlanRecord, number: int, history: History, *, folder: Path, chance: random.Random) -> None:
    """Leave what was finished in segments, in the order in which it might have finished."""
    attempts = [opened(stage, plan, number, folder, f"attempt{count}") for count in range(history.attempts)]
    positions = list(range(plan.shards[number].lines))
    chance.shuffle(positions)
    for position in positions:
        if history.fate(number * history.lines_per_shard + position) is Fate.UNDONE:
            continue
        for attempt in {chance.choice(attempts) for _ in range(2)}:
            deliver(attempt, history, position)
            if chance.random() < 0.3:
                attempt.flush()
    for attempt in attempts:
        attempt.flush()
        attempt.discard()


def close(stage: Stage) -> MergeReport:
    report = merge(stage, fingerprint=FINGERPRINT, undone=Undone.EXPIRED)
    assert isinstance(report, MergeReport)
    return report


def published(folder: Path, kind: str) -> list[dict[str, Any]]:
    path = folder / "out" / "job" / f"{kind}.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def ids_of(lines: Iterable[dict[str, Any]]) -> list[str]:
    return [line["custom_id"] for line in lines]


def counts_are_exact(report: MergeReport, history: History) -> None:
    completed, failed, undone = (len(history.ids(fate)) for fate in (Fate.SUCCEEDED, Fate.FAILED, Fate.UNDONE))
    counts = report.request_counts
    assert (counts.total, counts.completed, counts.failed) == (len(history.fates), completed, failed + undone)
    wanted = {"request_timeout": failed, "batch_expired": undone}
    assert report.error_codes == {code: count for code, count in wanted.items() if count}
    assert (report.usage.total_tokens or 0) == completed


@settings(max_examples=60)
@given(HISTORIES, st.lists(st.integers(0, 60), max_size=3))
@example(History([Fate.UNDONE] * 20, 1, set(), 1, set(), 0), [1, 5, 9, 30, 59, 118, 121, 122])
def test_each_request_ends_once_in_input_order_however_often_it_is_killed(history: History, kills: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage = stopped(folder, history)
        for steps in kills:
            with suppress(Killed):
                close(mortal(stage, steps))
        report = close(stage)
        counts_are_exact(report, history)
        assert ids_of(published(folder, "results")) == history.ids(Fate.SUCCEEDED)
        errors = history.ids(Fate.FAILED, Fate.UNDONE)
        assert ids_of(published(folder, "errors")) == errors
        assert ids_of(published(folder, "retry")) == errors
        assert close(stage) == report, "it can be run again"
        assert report.warnings == ()


@settings(max_examples=20)
@given(HISTORIES, st.integers(0, 60))
def test_without_its_input_it_keeps_what_was_done(history: History, steps: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage = stopped(folder, history)
        (folder / "in" / "input.jsonl").unlink()
        with suppress(Killed):
            close(mortal(stage, steps))
        report = close(stage)
        counts_are_exact(report, history)
        assert ids_of(published(folder, "results")) == history.ids(Fate.SUCCEEDED)
        assert ids_of(published(folder, "errors")) == history.ids(Fate.FAILED)
        assert bool(report.warnings) == bool(history.without_full_lines())
        assert close(stage) == report, "it can be run again"
