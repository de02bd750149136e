"""Something fails under a worker: it waits or it ends and says what it was, and keeps what was paid for."""

import errno
import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from batchwright.storage.errors import AccessDenied, StorageError
from batchwright.worker.failures import StageFailed
from batchwright.worker.run import patience
from batchwright.worker.run.spool import Spool
from unit.worker.run.running import (
    LAYOUT,
    ScriptedTransport,
    Work,
    answer,
    answer_all,
    away,
    finish,
    hold_all,
    refused,
    running,
    settle,
    until,
)


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
