"""The worker's HTTP server is reached over IPv4 and over IPv6, since a cluster may have either alone."""

import logging
import socket
import urllib.request
from contextlib import AbstractContextManager

import aiohttp
import pytest

from batchwright.api.reports import MergeProgress, Progress
from batchwright.worker.http import Served, serving, serving_in_thread
from fixtures.worker import wait_until

PROGRESS = Progress(index=3, run=1, completed=7)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        pytest.param("[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")),
    ],
)
async def test_it_answers_on_every_address(host: str) -> None:
    port = free_port()
    async with serving(Served(lambda: PROGRESS), port), aiohttp.ClientSession() as client:
        async with client.get(f"http://{host}:{port}/progress") as answer:
            assert Progress.model_validate_json(await answer.read()) == PROGRESS
        for path in ("healthz", "readyz"):
            async with client.get(f"http://{host}:{port}/{path}") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")


class TestInAThread:
    """For the merge, which has no event loop."""

    MERGING = MergeProgress(run=1, bytes_joined=3, bytes_total=7)

    def serving(self, port: int) -> AbstractContextManager[None]:
        return serving_in_thread(Served(lambda: self.MERGING), port)

    def test_it_answers_while_the_body_runs(self) -> None:
        port = free_port()
        with self.serving(port):
            wait_until(lambda: is_open(port))
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/progress", timeout=10) as answer:
                assert MergeProgress.model_validate_json(answer.read()) == self.MERGING
        with socket.create_server(("127.0.0.1", port)):
            pass

    def test_a_port_that_is_taken_does_not_stop_the_body(self, caplog: pytest.LogCaptureFixture) -> None:
        taken = socket.create_server(("", 0))
        with taken, caplog.at_level(logging.WARNING), self.serving(taken.getsockname()[1]):
            wait_until(lambda: caplog.text)
        assert "the progress can't be served" in caplog.text
