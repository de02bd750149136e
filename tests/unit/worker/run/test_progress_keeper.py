"""Who writes the progress object, and what it says. Time is the test's own; the store is a real volume."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from batchwright.batchfile.counts import ProgressCounts
from batchwright.batchfile.origin_record import OriginRecord
from batchwright.batchfile.plan_record import encode_record
from batchwright.batchfile.shard_record import WorkerState
from batchwright.storage.errors import StorageUnavailable
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.progress_keeper import seconds_between_turns
from fixtures.progress_run import LAYOUT, LINES, OBJECT, SECONDS, SHARDS, Run, WatchedStore, totals


@pytest.fixture(params=[True, False], ids=["conditional PUT", "without conditions"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(WatchedStore(tmp_path), conditional_put=request.param)


class TestContent:
    def test_it_has_the_fields_that_clients_read(self, run: Run) -> None:
        run.state(1, totals(20, 5, 700), ProgressCounts(3, 30, 2))
        run.worker(0).turn(done=10, open_lines=4, tokens=100)
        wanted = {"lines_processed": 42, "total_tokens_so_far": 830, "num_responses_so_far": 36}
        assert run.told == wanted

    def test_it_begins_with_nothing_done(self, run: Run) -> None:
        run.worker(0).turn()
        assert run.told == {"lines_processed": 0, "total_tokens_so_far": 0, "num_responses_so_far": 0}

    def test_what_stands_from_an_earlier_batchjob_counts(self, run: Run) -> None:
        origin = OriginRecord("earlier", reused=totals(50, 10, 900))
        run.store.write(LAYOUT.origin, encode_record(origin))
        run.worker(0).turn(done=5)
        assert run.told == {"lines_processed": 65, "total_tokens_so_far": 900, "num_responses_so_far": 55}

    def test_of_earlier_runs_and_indexes_that_are_no_more_only_commits_count(self, run: Run) -> None:
        again = replace(run, number=2, workers=2)
        half = ProgressCounts(4, 0, 4)
        run.state(0, totals(10), half)
        run.state(1, totals(10), half)
        run.state(1, totals(1), half, run=2)
        run.state(7, totals(10), half, run=2)
        again.worker(0).turn(done=2, open_lines=1)
        assert run.lines == 10 + 10 + (1 + 4) + 10 + (2 + 1)

    def test_states_of_a_version_without_open_shards_count(self, run: Run) -> None:
        run.state(1, totals(10))
        run.worker(0).turn()
        assert run.lines == 10

    def test_it_never_tells_of_more_than_the_input_has(self, run: Run) -> None:
        run.state(1, totals(90))
        run.worker(0).turn(done=20)
        assert run.told is not None
        assert (run.told["lines_processed"], run.told["num_responses_so_far"]) == (LINES, LINES)

    def test_keys_that_are_none_of_ours_are_left_alone(self, run: Run) -> None:
        run.store.write(f"{LAYOUT.workers}1/x.json", b"{")
        run.worker(0).turn(done=1)
        assert run.lines == 1


class TestCost:
    def test_a_state_is_read_once_for_each_change(self, run: Run) -> None:
        worker = run.worker(0)
        run.state(1, totals(10))
        run.state(2, totals(10))
        for _ in range(3):
            worker.turn()
        assert sorted(run.store.fetched) == [LAYOUT.worker(1, 1), LAYOUT.worker(1, 2)]
        run.state(2, totals(20))
        worker.turn()
        assert run.store.fetched[2:] == [LAYOUT.worker(1, 2)]
        assert run.lines == 30

    def test_the_object_is_written_when_it_changes(self, run: Run) -> None:
        worker = run.worker(0)
        for done in (0, 0, 1, 1, 1, 2):
            worker.turn(done=done)
        assert run.store.wrote.count(OBJECT) == 3

    def test_who_does_not_write_only_looks(self, run: Run) -> None:
        writer, other = run.worker(0), run.worker(1)
        run.state(2, totals(10))
        writer.turn()
        other.turn()
        run.store.fetched.clear()
        for done in range(3):
            writer.turn(done=done)
            other.turn(done=done)
        assert run.store.fetched == []
        assert run.writer == 0

    @pytest.mark.parametrize(
        ("segment_seconds", "workers", "expected"), [(5.0, 1, 5.0), (5.0, 100, 5.0), (5.0, 1000, 50.0), (60.0, 8, 60.0)]
    )
    def test_very_many_workers_tell_less_often(self, segment_seconds: float, workers: int, expected: float) -> None:
        assert seconds_between_turns(segment_seconds, workers) == expected


class TestWriter:
    """One worker writes; another one takes its part once it is silent."""

    def test_others_wait_for_index_0(self, run: Run) -> None:
        run.worker(1).turn(done=5)
        assert run.told is None

    @pytest.mark.parametrize("began", [True, False], ids=["it was killed", "it never came"])
    def test_where_index_0_is_silent_the_next_one_writes(self, run: Run, began: bool) -> None:
        if began:
            run.worker(0).turn(done=3)
        other = run.worker(1)
        other.turn(done=1)
        run.now += 3 * SECONDS
        other.turn(done=2)
        assert run.lines == (3 if began else None), "not yet"
        run.now += SECONDS
        other.turn(done=4)
        assert (run.writer, run.lines) == (1, 4)

    def test_a_lower_index_comes_first(self, run: Run) -> None:
        run.workers = 400
        first, last = run.worker(1), run.worker(399)
        first.turn()
        last.turn()
        run.now += 4 * SECONDS
        last.turn()
        assert run.told is None
        first.turn()
        assert run.writer == 1

    def test_as_long_as_it_writes_nobody_else_does(self, run: Run) -> None:
        writer, other = run.worker(0), run.worker(1)
        for _ in range(10):
            writer.turn()
            other.turn()
            run.now += SECONDS
        assert run.writer == 0

    def test_one_that_comes_back_leaves_it_to_who_took_its_part(self, run: Run) -> None:
        late, other = run.worker(0), run.worker(1)
        late.turn(done=5)
        other.turn()
        run.now += 4 * SECONDS
        other.turn(done=9)
        late.turn(done=20)
        assert (run.writer, run.lines) == (1, 9)
        other.turn(done=10)
        assert (run.writer, run.lines) == (1, 10)

    def test_who_took_it_is_followed_in_turn(self, run: Run) -> None:
        second, third = run.worker(1), run.worker(2)
        second.turn()
        third.turn()
        run.now += 4 * SECONDS
        second.turn(done=1)
        third.turn()
        run.now += 4 * SECONDS
        third.turn(done=2)
        assert (run.writer, run.lines) == (2, 2)

    @pytest.mark.parametrize("index", [0, 2])
    def test_a_pod_that_replaces_the_writer_takes_its_part_at_once(self, run: Run, index: int) -> None:
        writer = run.worker(index)
        writer.turn()
        run.now += 10 * SECONDS
        writer.turn(done=7)
        run.worker(index).turn(done=8)
        assert (run.writer, run.lines) == (index, 8)
        writer.turn(done=9)
        assert run.lines == 8, "the earlier pod is no longer the writer"


class TestNeverLess:
    def test_a_successor_that_has_yet_to_find_what_was_kept(self, run: Run) -> None:
        run.worker(0).turn(done=10, open_lines=8, tokens=50)
        successor = run.worker(0)
        successor.turn(done=10, open_lines=2, tokens=20)
        assert run.told == {"lines_processed": 18, "total_tokens_so_far": 50, "num_responses_so_far": 18}
        successor.turn(done=20, tokens=60)
        assert run.told == {"lines_processed": 20, "total_tokens_so_far": 60, "num_responses_so_far": 20}

    def test_a_repair(self, run: Run) -> None:
        run.worker(0).turn(done=10, open_lines=8)
        run.state(0, totals(10))
        again = replace(run, number=2)
        again.worker(0).turn(open_lines=1)
        assert run.lines == 18

    def test_what_other_work_left_at_the_name_is_no_measure(self, run: Run) -> None:
        run.store.write(OBJECT, b'{"lines_processed":1000000}')
        run.worker(0).turn(done=1)
        assert run.lines == 1


class TestEnd:
    """A worker that was cut off, and wakes up after the merge, leaves the final object alone."""

    def test_the_writer(self, run: Run) -> None:
        writer = run.worker(0)
        writer.turn(done=1)
        run.commit(*range(SHARDS))
        run.close()
        writer.turn(done=2)
        run.now += 10 * SECONDS
        writer.turn(done=3)
        assert run.told == {"final": True}

    def test_one_that_would_take_its_part(self, run: Run) -> None:
        other = run.worker(1)
        other.turn()
        run.commit(*range(SHARDS))
        run.close()
        run.now += 10 * SECONDS
        other.turn(done=1)
        run.now += 10 * SECONDS
        other.turn(done=1)
        assert run.told == {"final": True}

    def test_in_the_midst_of_a_turn(self, tmp_path: Path) -> None:
        """Only conditional PUT can tell."""
        run = Run(WatchedStore(tmp_path))
        writer = run.worker(0)
        writer.turn(done=1)

        def close_after_the_record(key: str) -> None:
            if key == LAYOUT.progress:
                run.store.after_write = lambda key: None
                run.close()

        run.store.after_write = close_after_the_record
        writer.turn(done=2)
        writer.turn(done=3)
        assert run.told == {"final": True}

    def test_work_that_is_opened_again_is_told_of(self, run: Run) -> None:
        other = run.worker(1)
        other.turn()
        run.close()
        run.commit(*range(SHARDS - 1))
        other.turn()
        run.now += 10 * SECONDS
        other.turn(done=90)
        assert run.lines == 90


class TestDamage:
    def test_an_object_that_was_deleted_is_written_again(self, run: Run) -> None:
        worker = run.worker(0)
        worker.turn(done=1)
        run.store.delete([OBJECT])
        for done in (2, 3, 4):
            worker.turn(done=done)
        assert run.lines == 4

    def test_an_object_that_somebody_replaced_is_replaced_again(self, run: Run) -> None:
        worker = run.worker(0)
        worker.turn(done=1)
        run.store.write(OBJECT, b"mine")
        for done in (2, 3):
            worker.turn(done=done)
        assert run.lines == 3

    @pytest.mark.parametrize("index", [0, 1])
    def test_a_record_that_cannot_be_read_counts_as_none(self, run: Run, index: int) -> None:
        run.store.write(LAYOUT.progress, b"{")
        worker = run.worker(index)
        worker.turn()
        run.now += 10 * SECONDS
        worker.turn(done=2)
        assert (run.writer, run.lines) == (index, 2)

    def test_a_record_that_was_deleted(self, run: Run) -> None:
        worker = run.worker(0)
        worker.turn(done=1)
        run.store.delete([LAYOUT.progress])
        worker.turn(done=2)
        assert (run.writer, run.lines) == (0, 2)


class _State(RunProgress):
    """Tells always the same."""

    def __init__(self) -> None:
        """Nothing of a run is there."""

    def state(self, *, leaving: bool = False) -> WorkerState:
        return WorkerState(1, 0, totals=totals(3))


async def test_a_store_that_is_away_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(WatchedStore(tmp_path))
    worker = run.worker(0)
    failures = 3
    seen = asyncio.Event()

    def away(key: str) -> None:
        nonlocal failures
        if key == LAYOUT.progress and failures:
            failures -= 1
            raise StorageUnavailable("PutObject", key, "away")
        if key == OBJECT:
            loop.call_soon_threadsafe(seen.set)

    loop = asyncio.get_running_loop()
    run.store.after_write = away
    worker.keeper._seconds = 0.0
    keeping = asyncio.create_task(worker.keeper.run(_State()))
    await asyncio.wait_for(seen.wait(), 30)
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping
    assert run.lines == 3
    assert sum("can't be kept current" in line for line in caplog.messages) == 1, "an outage is told once"
