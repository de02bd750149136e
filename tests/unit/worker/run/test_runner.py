"""A worker comes to its end from every moment, and loses nothing that was paid for."""

import asyncio
import errno
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from batchwright.api.reports import Progress
from batchwright.storage.errors import AccessDenied, StorageError, StorageUnavailable
from batchwright.worker.failures import StageFailed
from batchwright.worker.run import patience, runner
from batchwright.worker.run.spool import Spool
from unit.worker.run.running import (
    LAYOUT,
    ScriptedTransport,
    Work,
    answer,
    answer_all,
    hold_all,
    running,
    settle,
    until,
)


def refused(key: str) -> AccessDenied:
    return AccessDenied("PutObject", key, "no", "s3:PutObject")


def away(key: str) -> StorageUnavailable:
    return StorageUnavailable("PutObject", key, "away")


async def finish(work: Work, attempt: str = "last") -> ScriptedTransport:
    """Let another worker do what is left."""
    transport = ScriptedTransport(answer_all)
    async with running(work.runner(transport, attempt)) as task:
        await task
    return transport


async def test_every_line_ends_in_a_committed_shard_exactly_once(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=95)
    transport = await finish(work)
    assert Counter(work.results()) == Counter(work.ids)
    assert transport.arrived == Counter(work.ids)
    assert sorted(work.records()) == list(range(10))


async def test_the_counts_of_the_last_report_are_those_of_the_records(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=30)
    transport = ScriptedTransport(lambda custom_id: answer(400 if custom_id.endswith("7") else 200))
    report = await work.runner(transport).run()
    assert (report.completed, report.failed, report.shards_completed, report.shards_active) == (27, 3, 3, 0)
    assert report.usage.total_tokens == 81
    assert report.finish_reasons == {"stop": 27}


async def test_no_more_requests_are_in_flight_than_allowed(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=50, concurrency=3)
    transport = ScriptedTransport(hold_all)
    async with running(work.runner(transport)) as task:
        await until(lambda: transport.in_flight == 3)
        await settle()
        assert transport.in_flight == 3
        transport.release()
        await task


async def test_the_next_shard_is_sent_while_the_slow_lines_of_one_are_waited_for(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=30)
    transport = ScriptedTransport(lambda custom_id: None if custom_id == "id-0" else answer())
    async with running(work.runner(transport)) as task:
        await until(lambda: sorted(work.records()) == [1, 2])
        transport.release()
        await task
    assert sorted(work.records()) == [0, 1, 2]


async def test_shards_with_slow_lines_don_t_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_OPEN_SHARDS", 2)
    work = Work(tmp_path, lines=50)
    transport = ScriptedTransport(lambda custom_id: None if custom_id.endswith("0") else answer())
    async with running(work.runner(transport)) as task:
        await until(lambda: len(transport.arrived) == 20)
        await settle()
        assert len(transport.arrived) == 20
        transport.release()
        await task
    assert Counter(work.results()) == Counter(work.ids)


async def test_large_lines_are_bounded_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BYTES_IN_FLIGHT", 2500)
    work = Work(tmp_path, lines=20, padding=900, concurrency=10)
    transport = ScriptedTransport(hold_all)
    async with running(work.runner(transport)) as task:
        await until(lambda: transport.in_flight == 2)
        await settle()
        assert transport.in_flight == 2
        transport.release()
        await task
    assert Counter(work.results()) == Counter(work.ids)


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
        monkeypatch.setattr(runner, "BYTES_IN_FLIGHT", 2500)
        work = Work(tmp_path, lines=20, padding=900, concurrency=10)
        transport = ScriptedTransport(hold_all)
        await self.stopped(work, transport, in_flight=2)
        await self.finished_by_another(work, transport)

    async def test_while_there_is_no_room_for_another_shard(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runner, "MAX_OPEN_SHARDS", 1)
        work = Work(tmp_path, lines=30)
        transport = ScriptedTransport(lambda custom_id: None if custom_id == "id-5" else answer())
        await self.stopped(work, transport, in_flight=1)
        await self.finished_by_another(work, transport)

    async def test_while_there_is_no_room_and_the_open_shard_cannot_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runner, "MAX_OPEN_SHARDS", 1)
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
            await until(lambda: len(transport.arrived) == 4)
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
                way = chance.choice(ways)
                {"stop": worker.stop, "abandon": worker.abandon, "cancel": task.cancel}[way]()
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


class TestFailure:
    """Something fails: the worker ends, says what it was, and keeps what was paid for."""

    async def failed(
        self, work: Work, transport: ScriptedTransport, kind: type[Exception], *, held: int = 0
    ) -> Exception:
        """Wait for the failure of a worker, with `held` requests in flight."""
        async with running(work.runner(transport)) as task:
            if held:
                await until(lambda: transport.in_flight == held)
                await settle()
                assert not task.done()
                transport.release()
            with pytest.raises(kind) as failure:
                await task
        return failure.value

    async def test_a_changed_input_does_not_cost_what_is_in_flight(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=50, lines_per_shard=6)
        transport = ScriptedTransport(hold_all)

        def change(operation: str, key: str) -> None:
            if key == LAYOUT.claim(1, 1) and operation == "answer":
                (tmp_path / "volume" / "input.jsonl").write_bytes(b"something else\n")

        work.store.fail = change
        failure = await self.failed(work, transport, StorageError, held=4)
        assert "has changed" in str(failure)
        assert set(transport.arrived) <= {f"id-{number}" for number in range(6)}
        assert sorted(work.segment_ids() + work.results()) == sorted(transport.arrived)

    async def test_lines_that_are_not_those_of_the_plan(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=3)
        info = work.store.write("input.jsonl", b"{}\n" * 3)
        work.plan = structs.replace(work.plan, input=structs.replace(work.plan.input, etag=info.etag))
        failure = await self.failed(work, ScriptedTransport(answer_all), StageFailed)
        assert "is not the file that was planned" in str(failure)

    async def test_a_full_disk_does_not_cost_what_is_in_flight(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work = Work(tmp_path, lines=50)
        full = OSError(errno.ENOSPC, "No space left on device")
        append, failures = Spool.append, iter([full])

        def append_once_in_vain(spool: Spool, line: bytes) -> object:
            if failure := next(failures, None):
                raise failure
            return append(spool, line)

        monkeypatch.setattr(Spool, "append", append_once_in_vain)
        transport = ScriptedTransport(lambda custom_id: answer() if custom_id == "id-0" else None)
        assert await self.failed(work, transport, OSError, held=3) is full
        assert sorted(work.segment_ids()) == sorted(set(transport.arrived) - {"id-0"})

    async def test_a_refused_commit(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=50)
        work.store.fail = lambda operation, key: refused(key) if key.startswith(LAYOUT.records) else None
        await self.failed(work, ScriptedTransport(answer_all), AccessDenied)
        work.store.fail = lambda operation, key: None
        second = await finish(work)
        assert Counter(work.results()) == Counter(work.ids)
        assert len(second.arrived) < 50, "segments were written"

    async def test_a_refused_commit_while_requests_hang(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=50)
        work.store.fail = lambda operation, key: refused(key) if key.startswith(LAYOUT.records) else None
        transport = ScriptedTransport(lambda custom_id: None if custom_id > "id-2" else answer())
        transport.respond = lambda custom_id: answer() if int(custom_id[3:]) < 10 else None
        await self.failed(work, transport, AccessDenied)

    async def test_a_refused_segment(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=50, segment_seconds=0.01)
        work.store.fail = lambda operation, key: refused(key) if key.startswith(LAYOUT.segments) else None
        transport = ScriptedTransport(lambda custom_id: answer() if custom_id == "id-0" else None)
        await self.failed(work, transport, AccessDenied)

    async def test_a_refused_claim_does_not_cost_what_is_in_flight(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=20, lines_per_shard=6)
        work.store.fail = lambda operation, key: refused(key) if key == LAYOUT.claim(1, 1) else None
        transport = ScriptedTransport(hold_all)
        await self.failed(work, transport, AccessDenied, held=4)
        assert sorted(work.segment_ids() + work.results()) == sorted(transport.arrived)

    async def test_a_damaged_segment(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=10)
        work.store.write(LAYOUT.segment(0, "earlier", 0), b'{"custom_id":"id-0","resp\n')
        failure = await self.failed(work, ScriptedTransport(answer_all), ValueError)
        assert LAYOUT.segment(0, "earlier", 0) in str(failure)

    async def test_a_segment_of_another_input(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=10)
        line = b'{"id":"x","custom_id":"elsewhere","response":null,"error":{"code":"c","message":"m"}}\n'
        work.store.write(LAYOUT.segment(0, "earlier", 0), line)
        failure = await self.failed(work, ScriptedTransport(answer_all), ValueError)
        assert "1 lines of another input" in str(failure)


class TestStoreAway:
    """A store that is away is waited for; nothing fails and nothing is sent twice."""

    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)
        monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.002)

    @pytest.mark.parametrize("seed", range(6))
    async def test_whatever_call_fails_every_line_is_sent_and_committed_once(self, tmp_path: Path, seed: int) -> None:
        work = Work(tmp_path, lines=60, lines_per_shard=7, segment_seconds=0.003)
        chance = random.Random(seed)
        work.store.fail = lambda operation, key: away(key) if chance.random() < 0.4 else None
        transport = ScriptedTransport(lambda custom_id: answer(400 if custom_id.endswith("3") else 200))
        async with running(work.runner(transport)) as task:
            await task
        work.store.fail = lambda operation, key: None
        assert Counter(work.results()) == Counter(work.ids)
        assert transport.arrived == Counter(work.ids)
        assert all(record.attempt == "first" for record in work.records().values())

    async def test_an_input_that_cannot_be_read_for_a_while_is_read_on(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=40, lines_per_shard=40)
        calls = iter([True, False, True, False])
        stream = work.store.stream

        def cut(key: str, **options: object) -> object:
            for number, chunk in enumerate(stream(key, **{**options, "chunk_size": 500})):  # type: ignore[arg-type]
                if number == 2 and next(calls, False):
                    raise away(key)
                yield chunk

        work.store.stream = cut  # type: ignore[method-assign,assignment]
        transport = await finish(work)
        assert transport.arrived == Counter(work.ids)

    async def test_what_piled_up_is_written_in_bounded_segments(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("batchwright.worker.run.open_shard.SEGMENT_BYTES", 1000)
        monkeypatch.setattr(
            "batchwright.worker.run.open_shard.OpenShard.__init__.__kwdefaults__", {"segment_bytes": 1000}
        )
        work = Work(tmp_path, lines=30, lines_per_shard=30, segment_seconds=0.01)
        transport = ScriptedTransport(lambda custom_id: None if custom_id == "id-29" else answer())
        async with running(work.runner(transport)) as task:
            await until(lambda: len(work.segment_ids()) == 29)
            transport.release()
            await task
        sizes = [info.size for info in work.store.list(LAYOUT.segments)]
        assert len(sizes) > 3
        assert max(sizes) <= 1000


class TestResume:
    """A successor goes on where the last pod of its index ended."""

    async def test_it_reports_what_its_predecessor_committed(self, tmp_path: Path) -> None:
        work, transport = Work(tmp_path, lines=30), ScriptedTransport(answer_all)
        transport.respond = lambda custom_id: None if custom_id == "id-25" else answer()
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: len(work.records()) == 2)
            await settle()
            worker.stop()
            worker.abandon()
            await task
        report = await work.runner(ScriptedTransport(answer_all), "next").run()
        assert (report.completed, report.shards_completed, report.usage.total_tokens) == (30, 3, 90)

    async def test_failed_lines_are_restored_with_their_code_and_retry_line(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=10)
        transport = ScriptedTransport(lambda custom_id: None if custom_id == "id-9" else answer(400, b'{"error":{}}'))
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.arrived.total() == 10)
            worker.abandon()
            await task
        await finish(work)
        record = work.records()[0]
        assert record.totals.error_codes == {"400": 9}
        assert record.retry is not None
        lines = work.store.read("input.jsonl").splitlines()
        assert work.store.read(record.retry.key).splitlines() == lines[:9]

    async def test_a_line_that_two_attempts_finished_counts_once(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=4)
        for attempt in ("a", "b"):
            lines = (
                b'{"id":"x","custom_id":"id-%d","response":{"status_code":200,"request_id":"r","body":{"by":"%s"}},'
                b'"error":null}\n' % (number, attempt.encode())
                for number in (0, 2)
            )
            work.store.write(LAYOUT.segment(0, attempt, 0), b"".join(lines))
        transport = await finish(work)
        assert sorted(transport.arrived) == ["id-1", "id-3"]
        assert Counter(work.results()) == Counter(work.ids)
        assert work.records()[0].totals.completed == 4

    async def test_of_two_workers_on_one_shard_one_commits_and_the_other_leaves_nothing(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=10)
        first, second = ScriptedTransport(hold_all), ScriptedTransport(hold_all)
        async with running(work.runner(first, "first")) as one:
            await until(lambda: first.in_flight == 4)
            async with running(work.runner(second, "second")) as two:
                await until(lambda: second.in_flight == 4)
                first.release()
                await one
                second.release()
                report = await two
        assert work.records()[0].attempt == "first"
        assert Counter(work.results()) == Counter(work.ids)
        files = [info.key for info in work.store.list(LAYOUT.shard_files)]
        assert files == [LAYOUT.shard_file(0, "first", "results")]
        assert isinstance(report, Progress)
        assert report.completed == 10

    async def test_the_spool_is_empty_at_the_end(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=30)
        await finish(work)
        assert [path for path in (tmp_path / "spool").rglob("*") if path.is_file()] == []
