"""A worker that is stopped, at any moment, comes to its end and loses nothing that was paid for."""

import asyncio
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from batchwright.worker.run import feeding, patience, saving
from batchwright.worker.run.spool import Spool, SpooledFile
from batchwright.worker.server.findings import WatchTimes
from batchwright.worker.transport.errors import ConnectFailed
from batchwright.worker.transport.protocol import Answer
from unit.worker.run.running import (
    SECONDS,
    ScriptedTransport,
    Work,
    answer,
    answer_all,
    away,
    finish,
    hold_all,
    running,
    settle,
    until,
)


class TestStop:
    """SIGTERM: what is in flight is waited for and kept, nothing else is sent."""

    async def stopped(self, work: Work, transport: ScriptedTransport, in_flight: int) -> None:
        """Stop a worker that has so many requests in flight, let these be answered, and wait for its end."""
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.in_flight == in_flight)
            await settle()
            arrived = transport.arrived.total()
            worker.stop()
            await settle()
            assert not task.done()
            transport.release()
            await task
        assert transport.arrived.total() == arrived
        assert not worker.finished

    async def finished_by_another(self, work: Work, transport: ScriptedTransport) -> None:
        kept = [custom_id for custom_id, tries in transport.arrived.items() if tries]
        second = await finish(work)
        assert Counter(work.results()) == Counter(work.ids)
        assert not set(kept) & set(second.arrived), "what was paid for was sent again"

    async def test_while_the_queue_is_full(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=50), ScriptedTransport(hold_all)
        await self.stopped(work, transport, in_flight=4)
        assert sorted(work.segment_ids()) == sorted(transport.arrived)
        await self.finished_by_another(work, transport)

    async def test_while_the_byte_budget_is_used_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feeding, "BYTES_IN_FLIGHT", 2500)
        work = Work(tmp_path, lines=20, padding=900, concurrency=10)
        transport = ScriptedTransport(hold_all)
        await self.stopped(work, transport, in_flight=2)
        await self.finished_by_another(work, transport)

    async def test_while_there_is_no_room_for_another_shard(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(feeding, "MAX_OPEN_SHARDS", 1)
        work = Work(tmp_path, lines=30)
        transport = ScriptedTransport(lambda custom_id: None if custom_id == "id-5" else answer())
        await self.stopped(work, transport, in_flight=1)
        await self.finished_by_another(work, transport)

    async def test_while_there_is_no_room_and_the_open_shard_cannot_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(feeding, "MAX_OPEN_SHARDS", 1)
        work = Work(tmp_path, lines=6, lines_per_shard=3, retries=100)
        transport = ScriptedTransport(lambda custom_id: answer(503))
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: len(transport.arrived) == 3)
            await settle()
            worker.stop()
            await task
        assert len(transport.arrived) == 3

    async def test_while_requests_wait_for_their_next_try(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=8, retries=100)
        transport = ScriptedTransport(lambda custom_id: answer(503))
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: len(transport.arrived) == 8)
            worker.stop()
            await task
        assert work.segment_ids() == []
        await finish(work)
        assert Counter(work.results()) == Counter(work.ids)

    async def test_before_it_begins(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=8), ScriptedTransport(answer_all)
        worker = work.runner(transport)
        worker.stop()
        await worker.run()
        assert not transport.arrived

    async def test_while_the_store_is_away(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=8), ScriptedTransport(answer_all)
        work.store.fail = lambda operation, key: away(key) if "claims" in key else None
        worker = work.runner(transport)
        async with running(worker) as task:
            await settle()
            worker.stop()
            await task
        assert not transport.arrived

    async def test_when_nothing_is_left_there_is_no_work_for_a_successor(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=8), ScriptedTransport(hold_all)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.in_flight == 4)
            transport.release()
            await until(lambda: worker.finished)
            worker.stop()
            await task
        assert worker.finished

    async def test_abandoned_it_keeps_what_is_finished(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=50)
        transport = ScriptedTransport(lambda custom_id: answer() if custom_id in ("id-0", "id-1") else None)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.arrived.total() == 6)
            await settle()
            worker.stop()
            await settle()
            assert not task.done()
            worker.abandon()
            await task
        assert sorted(work.segment_ids()) == ["id-0", "id-1"]
        second = await finish(work)
        assert Counter(work.results()) == Counter(work.ids)
        assert set(work.ids) - set(second.arrived) == {"id-0", "id-1"}

    async def test_abandoned_it_does_not_wait_for_a_store_that_hangs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(saving, "LAST_SAVE_SECONDS", 0.05)
        work, hanging = Work(tmp_path, lines=50), threading.Event()
        work.store.fail = lambda operation, key: None if "claims" in key else hanging.wait(SECONDS) and None
        transport = ScriptedTransport(lambda custom_id: answer() if custom_id == "id-0" else None)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.arrived.total() == 5)
            worker.stop()
            worker.abandon()
            await task
            hanging.set()

    async def test_abandoned_it_does_not_wait_for_a_shard_that_is_being_copied(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(saving, "LAST_SAVE_SECONDS", 0.05)
        monkeypatch.setattr(saving, "DISCARD_SECONDS", 0.05)
        copying, go_on, copied = (threading.Event() for _ in range(3))
        ordered = Spool.ordered

        def copy(spool: Spool, kind: str) -> SpooledFile | None:
            copying.set()
            go_on.wait(SECONDS / 10)
            copied.set()
            return ordered(spool, kind)

        monkeypatch.setattr(Spool, "ordered", copy)
        work = Work(tmp_path, lines=8)
        worker = work.runner(ScriptedTransport(answer_all))
        async with running(worker) as task:
            await until(copying.is_set)
            worker.abandon()
            await task
            assert not copied.is_set()
            go_on.set()

    async def test_until_it_is_abandoned_it_waits_for_a_store_that_is_away(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(saving, "LAST_SAVE_SECONDS", 0.0)
        monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)
        work = Work(tmp_path, lines=50)
        work.store.fail = lambda operation, key: away(key) if "segments" in key else None
        transport = ScriptedTransport(hold_all)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.in_flight == 4)
            worker.stop()
            transport.release()
            await settle()
            assert not task.done()
            work.store.fail = lambda operation, key: None
            await task
        assert len(work.segment_ids()) == 4

    async def test_abandoned_without_a_stop_before(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=50), ScriptedTransport(hold_all)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.in_flight == 4)
            worker.abandon()
            await task
        assert work.segment_ids() == []

    async def test_cancelled_from_outside_it_keeps_what_is_finished(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=20)
        transport = ScriptedTransport(lambda custom_id: answer() if custom_id == "id-0" else None)
        async with running(work.runner(transport)) as task:
            await until(lambda: transport.arrived.total() == 5)
            await settle()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert work.segment_ids() == ["id-0"]


class TestAgainAndAgain:
    """Workers that are ended at moments of chance, one after the other, until nothing is left."""

    async def rounds(self, work: Work, seed: int, *ways: str) -> ScriptedTransport:
        chance = random.Random(seed)
        transport = ScriptedTransport(answer_all, delay=lambda: chance.uniform(0, 0.01))
        for attempt in itertools.count():
            worker = work.runner(transport, f"attempt-{attempt}")
            async with running(worker) as task:
                await asyncio.wait((task,), timeout=chance.uniform(0, 0.06))
                end: dict[str, Callable[[], object]] = {
                    "stop": worker.stop,
                    "abandon": worker.abandon,
                    "cancel": task.cancel,
                }
                end[chance.choice(ways)]()
                await asyncio.wait((task,))
            if worker.finished:
                return transport
        raise AssertionError

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_stop_costs_nothing_at_all(self, tmp_path: Path, seed: int) -> None:
        work = Work(tmp_path, lines=200, segment_seconds=0.02)
        transport = await self.rounds(work, seed, "stop")
        assert Counter(work.results()) == Counter(work.ids)
        assert transport.arrived == Counter(work.ids)

    @pytest.mark.parametrize("seed", range(3))
    async def test_whatever_the_way_each_line_ends_once(self, tmp_path: Path, seed: int) -> None:
        work = Work(tmp_path, lines=200, segment_seconds=0.02)
        await self.rounds(work, seed, "stop", "abandon", "cancel")
        assert Counter(work.results()) == Counter(work.ids)
        assert sorted(work.records()) == list(range(20))


class TestServerAway:
    """A worker whose server is away comes to its end as soon as any other."""

    @pytest.mark.parametrize("way", ["stop", "abandon"])
    async def test_while_all_wait_for_the_server(self, tmp_path: Path, way: str) -> None:
        work = Work(tmp_path, lines=20)
        transport = ScriptedTransport(lambda custom_id: ConnectFailed("refused"))
        transport.health = answer(503)
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: not worker._progress.report().server_available)
            {"stop": worker.stop, "abandon": worker.abandon}[way]()
            async with asyncio.timeout(5):
                await task
        assert work.segment_ids() == [], "no line has failed"
        await finish(work)
        assert Counter(work.results()) == Counter(work.ids)

    async def test_while_requests_pause_and_it_is_abandoned_at_the_same_moment(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=20, retries=100)
        transport = ScriptedTransport(lambda custom_id: Answer(429, {"retry-after": "60"}, b"{}"))
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.arrived.total() == 4)
            await settle()
            worker.abandon()
            async with asyncio.timeout(5):
                await task
        await finish(work)
        assert Counter(work.results()) == Counter(work.ids)

    async def test_what_hangs_when_it_is_found_gone_while_draining_is_left_to_the_next(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=20), ScriptedTransport(hold_all)
        worker = work.runner(transport, times=WatchTimes(silence=0.1, probe_again=0.05))
        async with running(worker) as task:
            await until(lambda: transport.in_flight == 4)
            worker.stop()
            transport.health = ConnectFailed("refused")
            async with asyncio.timeout(5):
                await task
        assert work.segment_ids() == []
        await finish(work)
        assert Counter(work.results()) == Counter(work.ids)
