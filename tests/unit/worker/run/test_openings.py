"""Shards that kill their worker are told from those whose worker merely left, and given up after three kills."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from batchwright.batchfile.result_line import read_finished_line
from batchwright.batchfile.shard_record import OpeningRecord
from batchwright.worker.run.openings import given_up_message, is_given_up, kills_in_a_row, must_be_alone
from batchwright.worker.run.runner import Runner
from batchwright.worker.server.findings import WatchTimes
from batchwright.worker.transport.errors import ConnectFailed
from unit.worker.run.running import (
    LAYOUT,
    ScriptedTransport,
    Work,
    answer,
    away,
    finish,
    hold_all,
    refused,
    running,
    settle,
    until,
)

IMPATIENT = WatchTimes(probe_again=0.01, first_poll=0.01, longest_poll=0.01)


def opened(finished: int = 0, kills: int = 0) -> OpeningRecord:
    return OpeningRecord(1, 0, "last", finished, kills)


@pytest.mark.parametrize(
    ("last", "finished", "left", "kills"),
    [
        # nothing is known of whoever had it before, as in another run
        (None, 0, False, 0),
        (None, 5, False, 0),
        # killed
        (opened(), 0, False, 1),
        (opened(finished=5), 5, False, 1),
        (opened(kills=1), 0, False, 2),
        (opened(kills=2), 0, False, 3),
        (opened(finished=5, kills=2), 5, False, 3),
        # killed after it had finished something
        (opened(), 1, False, 0),
        (opened(kills=2), 1, False, 0),
        (opened(finished=5, kills=2), 6, False, 0),
        # left in good order: no kill more, and none forgiven
        (opened(), 0, True, 0),
        (opened(kills=2), 0, True, 2),
        (opened(kills=2), 1, True, 0),
    ],
)
def test_kills_in_a_row(last: OpeningRecord | None, finished: int, left: bool, kills: int) -> None:
    assert kills_in_a_row(last, finished=finished, left=left) == kills


@pytest.mark.parametrize(
    ("kills", "alone", "given_up"), [(0, False, False), (1, False, False), (2, True, False), (3, False, True)]
)
def test_a_shard_is_opened_alone_before_its_last_kill(kills: int, alone: bool, given_up: bool) -> None:
    assert (must_be_alone(kills), is_given_up(kills)) == (alone, given_up)


@asynccontextmanager
async def killed_at_the_end(work: Work, worker: Runner) -> AsyncIterator[None]:
    """A worker that ends without a chance to save anything: nothing that it still writes gets through."""
    async with running(worker):
        yield
        work.store.fail = lambda operation, key: refused(key)
    work.store.fail = lambda operation, key: None


def left(work: Work) -> str | None:
    """Who left the first shard in good order, as far as the store tells."""
    state = work.state()
    return state.left.get(0) if state else None


class TestWorkers:
    """Thirty requests in shards of ten; id-4 of the first shard never gets an answer."""

    SHARD = frozenset(f"id-{number}" for number in range(10))

    @pytest.fixture
    def work(self, tmp_path: Path) -> Work:
        return Work(tmp_path, lines=30, concurrency=30)

    async def kill(self, work: Work, attempt: str, transport: ScriptedTransport, arrived: str = "id-4") -> None:
        async with killed_at_the_end(work, work.runner(transport, attempt)):
            await until(lambda: arrived in transport.arrived)

    async def kill_three_times(self, work: Work) -> None:
        for attempt in ("1", "2", "3"):
            await self.kill(work, attempt, ScriptedTransport(hold_all))

    async def test_after_three_kills_its_lines_are_given_up_and_all_others_are_sent(self, work: Work) -> None:
        await self.kill_three_times(work)
        transport = await finish(work)
        assert set(transport.arrived) == set(work.ids) - self.SHARD
        record = work.records()[0]
        assert record.errors is not None
        assert record.retry is not None
        assert record.results is None
        assert record.totals.error_codes == {"worker_failed": 10}
        assert work.results() == work.ids
        lines = work.store.read(record.errors.key).splitlines()
        assert {read_finished_line(line).code for line in lines} == {"worker_failed"}
        assert given_up_message(0, 3).encode() in lines[0]
        assert work.store.read(record.retry.key) == b"".join(map(work._line, range(10)))

    async def test_what_was_finished_before_stays_a_success(self, work: Work) -> None:
        work.segment_seconds = 0.01
        some = ScriptedTransport(lambda custom_id: answer() if custom_id in ("id-0", "id-7") else None)
        async with killed_at_the_end(work, work.runner(some, "0")):
            await until(lambda: len(work.segment_ids()) == 2)
        await self.kill_three_times(work)
        transport = await finish(work)
        assert not self.SHARD & set(transport.arrived)
        assert (work.records()[0].totals.completed, work.records()[0].totals.failed) == (2, 8)
        assert work.results() == [*("id-0", "id-7"), *sorted(self.SHARD - {"id-0", "id-7"}), *work.ids[10:]]

    async def test_a_finished_line_between_two_kills_begins_the_count_anew(self, work: Work) -> None:
        await self.kill(work, "1", ScriptedTransport(hold_all))
        await self.kill(work, "2", ScriptedTransport(hold_all))
        work.segment_seconds = 0.01
        one = ScriptedTransport(lambda custom_id: answer() if custom_id == "id-0" else None)
        async with killed_at_the_end(work, work.runner(one, "3")):
            await until(lambda: work.segment_ids() == ["id-0"])
        for attempt in ("4", "5"):
            await self.kill(work, attempt, ScriptedTransport(hold_all))
        transport = await finish(work)
        assert transport.arrived["id-4"] == 1
        assert work.records()[0].totals.completed == 10

    async def test_workers_that_leave_in_good_order_are_no_kills(self, work: Work) -> None:
        for attempt in "12345":
            held = ScriptedTransport(hold_all)
            async with running(worker := work.runner(held, attempt)) as task:
                await until(lambda held=held: "id-4" in held.arrived)
                worker.abandon()
                await task
        transport = await finish(work)
        assert transport.arrived["id-4"] == 1
        assert work.records()[0].totals.completed == 10

    async def test_kills_while_the_server_is_away_are_not_counted(self, work: Work) -> None:
        for attempt in ("1", "2"):
            await self.kill(work, attempt, ScriptedTransport(hold_all))
        for attempt in ("away 1", "away 2"):
            transport = ScriptedTransport(lambda custom_id: ConnectFailed("refused"))
            transport.health = ConnectFailed("refused")
            async with killed_at_the_end(work, work.runner(transport, attempt, times=IMPATIENT)):
                await until(lambda attempt=attempt: left(work) == attempt)
        await self.kill(work, "3", ScriptedTransport(hold_all))
        transport = await finish(work)
        assert "id-4" not in transport.arrived, "and none before was forgiven"
        assert work.records()[0].totals.error_codes == {"worker_failed": 10}

    async def test_kills_after_the_server_is_back_are_counted(self, work: Work) -> None:
        for attempt in ("1", "2", "3"):
            transport = ScriptedTransport(lambda custom_id: ConnectFailed("refused"))
            transport.health = ConnectFailed("refused")
            async with killed_at_the_end(work, work.runner(transport, attempt, times=IMPATIENT)):
                await until(lambda attempt=attempt: left(work) == attempt)
                transport.respond, transport.health = hold_all, answer()
                await until(lambda: left(work) is None)
        transport = await finish(work)
        assert "id-4" not in transport.arrived

    async def test_leaving_before_a_shard_is_resumed_leaves_it_as_it_was_found(self, work: Work) -> None:
        async with running(worker := work.runner(held := ScriptedTransport(hold_all), "1")) as task:
            await until(lambda: "id-4" in held.arrived)
            worker.abandon()
            await task
        work.store.fail = lambda operation, key: away(key) if LAYOUT.shard_of_opening(key) is not None else None
        async with running(worker := work.runner(ScriptedTransport(hold_all), "2")) as task:
            await until(lambda: worker._progress.open)
            await settle()
            worker.abandon()
            await task
        assert left(work) == "1"

    async def test_leaving_after_two_kills_forgives_none(self, work: Work) -> None:
        for attempt in ("1", "2"):
            await self.kill(work, attempt, ScriptedTransport(hold_all))
        async with running(work.runner(leaving := ScriptedTransport(hold_all), "left")) as task:
            await until(lambda: "id-4" in leaving.arrived)
            task.cancel()
            await asyncio.wait((task,))
        await self.kill(work, "3", ScriptedTransport(hold_all))
        transport = await finish(work)
        assert "id-4" not in transport.arrived

    async def test_the_shards_that_were_open_beside_it_are_not_blamed(self, work: Work) -> None:
        first, second, third = (ScriptedTransport(hold_all) for _ in range(3))
        await self.kill(work, "1", first, arrived="id-29")
        await self.kill(work, "2", second, arrived="id-29")
        await self.kill(work, "3", third)
        assert set(first.arrived) == set(second.arrived) == set(work.ids)
        assert set(third.arrived) <= self.SHARD, "before the last kill it was alone"
        transport = await finish(work)
        assert set(transport.arrived) == set(work.ids) - self.SHARD
        assert {number: record.totals.failed for number, record in work.records().items()} == {0: 10, 1: 0, 2: 0}

    async def test_a_shard_that_was_opened_alone_makes_room_for_the_others_again(self, work: Work) -> None:
        for attempt in ("1", "2"):
            await self.kill(work, attempt, ScriptedTransport(hold_all), arrived="id-29")
        slow = ScriptedTransport(lambda custom_id: None if custom_id in ("id-4", "id-14", "id-24") else answer())
        async with running(work.runner(slow, "last")) as task:
            await until(lambda: "id-4" in slow.arrived)
            assert set(slow.arrived) <= self.SHARD
            slow.release()
            await task
        assert work.results() == work.ids

    async def test_it_can_be_stopped_while_it_waits_to_be_alone(self, work: Work) -> None:
        for attempt in ("1", "2"):
            await self.kill(work, attempt, ScriptedTransport(hold_all), arrived="id-29")
        held = ScriptedTransport(hold_all)
        worker = work.runner(held, "last")
        async with running(worker) as task:
            await until(lambda: len(held.arrived) == 10)
            worker.abandon()
            await task
        assert set(held.arrived) == self.SHARD

    async def test_nothing_is_written_for_shards_that_nobody_had_before(self, work: Work) -> None:
        await finish(work)
        assert list(work.store.list(LAYOUT.segments)) == []
