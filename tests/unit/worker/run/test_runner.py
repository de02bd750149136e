"""A worker sends every line once, within its bounds, and goes on where another one ended."""

from collections import Counter
from pathlib import Path

import pytest

from batchwright.api.reports import Progress
from batchwright.batchfile.counts import ProgressCounts
from batchwright.worker.run import feeding
from unit.worker.run.running import (
    LAYOUT,
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
    monkeypatch.setattr(feeding, "MAX_OPEN_SHARDS", 2)
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
    monkeypatch.setattr(feeding, "BYTES_IN_FLIGHT", 2500)
    work = Work(tmp_path, lines=20, padding=900, concurrency=10)
    transport = ScriptedTransport(hold_all)
    async with running(work.runner(transport)) as task:
        await until(lambda: transport.in_flight == 2)
        await settle()
        assert transport.in_flight == 2
        transport.release()
        await task
    assert Counter(work.results()) == Counter(work.ids)


async def test_the_gate_knows_whether_lines_are_left_that_were_never_sent(tmp_path: Path) -> None:
    work = Work(tmp_path, lines=6, concurrency=3)
    transport = ScriptedTransport(lambda custom_id: None if custom_id in ("id-0", "id-4", "id-5") else answer())
    worker = work.runner(transport)
    gate = worker._sender.gate
    assert gate.availability.has_untried(), "shards have yet to be claimed"
    transport.respond, respond = hold_all, transport.respond
    async with running(worker) as task:
        await until(lambda: transport.in_flight == 3)
        await settle()
        assert gate.availability.has_untried()
        transport.respond = respond
        transport.release()
        await until(lambda: transport.arrived.total() == 6)
        assert not gate.availability.has_untried()
        await task


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


class TestToldOfOpenShards:
    """What a worker's state tells of open shards, where a progress object is wanted: what is kept in segments."""

    async def test_it_tells_what_is_kept(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=30, segment_seconds=0.01, tells_open=True)
        failing = {"id-3", "id-12"}
        transport = ScriptedTransport(
            lambda id_: None if id_ in ("id-9", "id-19") else answer(400 if id_ in failing else 200)
        )
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: (state := work.state()) and state.open_shards == ProgressCounts(18, 3 * 16, 16))
            await until(lambda: (state := work.state()) and state.totals.completed == 10)
            state = work.state()
            assert state is not None
            assert state.open_shards == ProgressCounts(18, 3 * 16, 16)
            assert len(work.segment_ids()) >= 18
            transport.release()
            await task
        state = work.state()
        assert state is not None
        assert state.open_shards == ProgressCounts()
        assert (state.totals.completed, state.totals.failed) == (28, 2)

    async def test_what_no_segment_holds_is_told_nobody(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=20, segment_seconds=0.01, tells_open=True)
        work.store.fail = lambda operation, key: away(key) if operation == "write" and "segments/" in key else None
        transport = ScriptedTransport(lambda id_: None if id_ == "id-9" else answer())
        async with running(work.runner(transport)):
            await until(lambda: len(work.records()) == 1)
            await settle()
            state = work.state()
            assert state is None or state.open_shards == ProgressCounts()

    async def test_stopped_it_tells_what_its_last_segments_hold(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=10, tells_open=True)
        transport = ScriptedTransport(lambda id_: None if id_ == "id-9" else answer())
        worker = work.runner(transport)
        async with running(worker) as task:
            await until(lambda: transport.in_flight == 1 and transport.arrived.total() == 10)
            worker.abandon()
            await task
        state = work.state()
        assert state is not None
        assert state.open_shards == ProgressCounts(9, 27, 9)

    async def test_where_no_progress_object_is_wanted_it_says_nothing(self, tmp_path: Path) -> None:
        work = Work(tmp_path, lines=20, segment_seconds=0.01)
        transport = ScriptedTransport(lambda id_: None if id_ == "id-9" else answer())
        async with running(work.runner(transport)) as task:
            await until(work.segment_ids)
            await settle()
            state = work.state()
            assert state is None or state.open_shards is None
            transport.release()
            await task
