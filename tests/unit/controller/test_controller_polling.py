"""Asking workers for their progress."""

import asyncio
import contextlib
import gzip
from datetime import timedelta

import pytest

from batchwright.api.reports import MergeProgress
from batchwright.controller.memory import Memory
from batchwright.controller.poll import Budget, Poller, due_pods
from batchwright.controller.settings import Settings
from builders import NOW, JobBuilder, ago, job
from fixtures.kubernetes_api import reading


class TestPolling:
    def test_the_budget_is_refilled_by_the_second(self) -> None:
        budget = Budget(10)
        assert budget.take(25, NOW) == 10
        assert budget.take(5, NOW) == 0
        assert budget.take(5, NOW + timedelta(seconds=0.3)) == 3
        assert budget.take(50, NOW + timedelta(hours=1)) == 10

    def test_the_longest_unasked_worker_comes_first(self) -> None:
        pods = (
            job("run", 1)
            .running_pod(uid="asked", address="a", index=0)
            .running_pod(uid="just", address="b", index=1)
            .running_pod(uid="never", address="c", index=2)
            .pod(uid="pending", address="d", index=3)
            .running_pod(uid="no-address", index=4)
            .pods
        )
        asked = {"asked": ago(seconds=5), "just": ago(seconds=1)}
        assert [pod.uid for pod in due_pods(pods, asked, NOW, timedelta(seconds=2))] == ["never", "asked"]

    REPORT = b'{"kind":"progress","version":1,"index":0,"run":1,"completed":7}'

    @pytest.mark.parametrize(
        ("head", "body", "heard"),
        [
            (b"200 OK", REPORT, True),
            (b"200 OK", REPORT.replace(b'"index":0', b'"index":5'), False),
            (b"200 OK", b"<html>", False),
            (b"200 OK", b"\xff" + REPORT, False),
            (b"200 OK", REPORT + b" " * 64 * 1024, False),
            (b"200 OK\r\nContent-Encoding: gzip", gzip.compress(REPORT), False),
            (b"302 Found\r\nLocation: /progress", REPORT, False),
            (b"503 Service Unavailable", REPORT, False),
        ],
        ids=["report", "of another index", "nonsense", "no text", "too long", "packed", "redirect", "error"],
    )
    async def test_a_worker_is_asked_over_http(
        self, monkeypatch: pytest.MonkeyPatch, head: bytes, body: bytes, heard: bool
    ) -> None:
        run = job("run", 1).running_pod(address="127.0.0.1", index=0)
        memory = await self.asked(monkeypatch, run, head, body)
        assert [report.completed for report in memory.progress] == ([7] if heard else [])
        assert memory.samples

    MERGING = b'{"kind":"merge_progress","version":1,"run":2,"bytes_joined":3,"bytes_total":7}'

    @pytest.mark.parametrize(
        ("body", "heard"),
        [(MERGING, True), (MERGING.replace(b'"run":2', b'"run":1'), False), (REPORT, False), (b"{}", False)],
        ids=["report", "of another run", "of a worker", "nonsense"],
    )
    async def test_a_merge_is_asked_too(self, monkeypatch: pytest.MonkeyPatch, body: bytes, heard: bool) -> None:
        merge = job("merge", 2).running_pod(address="127.0.0.1")
        memory = await self.asked(monkeypatch, merge, b"200 OK", body)
        assert memory.merging == (MergeProgress(run=2, bytes_joined=3, bytes_total=7) if heard else None)
        assert memory.progress == memory.samples == ()

    async def asked(self, monkeypatch: pytest.MonkeyPatch, stage: JobBuilder, head: bytes, body: bytes) -> Memory:
        """What is remembered of a pod that answers so."""
        asked = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            length = b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            with contextlib.suppress(ConnectionError):
                writer.write(b"HTTP/1.1 " + head + length + body)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        monkeypatch.setattr("batchwright.api.names.WORKER_PORT", server.sockets[0].getsockname()[1])
        poller, memory = Poller(Settings()), Memory()
        memory.remember(reading(pods=stage.pods))
        await poller.poll(memory, NOW)
        assert len(asked) == 1
        assert b"accept-encoding: identity" in asked[0].lower()
        await poller.close()
        server.close()
        await server.wait_closed()
        return memory
