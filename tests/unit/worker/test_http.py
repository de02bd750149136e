"""The worker's HTTP server is reached over IPv4 and over IPv6, since a cluster may have either alone."""

import socket

import aiohttp
import pytest

from batchwright.api.reports import Progress
from batchwright.worker.http import Served, serving

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
