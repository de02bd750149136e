"""The probes and the metrics over HTTP, on IPv4 and IPv6."""

import asyncio
import socket

import httpx
import pytest

from batchwright.controller import server
from batchwright.controller.health import Health
from batchwright.listening import listen


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


HOSTS = ["127.0.0.1", pytest.param("[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here"))]


def free_port() -> int:
    with listen(0) as taken:
        return int(taken.getsockname()[1])


async def get(url: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        return (await client.get(url)).status_code


@pytest.mark.parametrize("host", HOSTS)
async def test_metrics_and_readiness_are_served_on_every_address(host: str) -> None:
    health, port = Health(60), free_port()
    stop = server.start(port, server.readiness(health))
    try:
        assert await get(f"http://{host}:{port}/readyz") == 503
        health.swept([], [])
        assert await get(f"http://{host}:{port}/readyz") == 200
        assert await get(f"http://{host}:{port}/metrics") == 200
        assert await get(f"http://{host}:{port}/other") == 404
    finally:
        stop()


@pytest.mark.parametrize("host", HOSTS)
async def test_liveness_is_served_on_every_address(host: str) -> None:
    clock = [1000.0]
    health, port = Health(60, clock=lambda: clock[0]), free_port()
    stop = server.start(port, server.liveness(health, asyncio.get_running_loop()))
    try:
        assert await get(f"http://{host}:{port}/healthz") == 200
        assert await get(f"http://{host}:{port}/other") == 404
        clock[0] += 3600
        assert await get(f"http://{host}:{port}/healthz") == 500
    finally:
        await asyncio.to_thread(stop)


async def test_an_event_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_ANSWER_SECONDS", 0.2)
    hanging, port = asyncio.new_event_loop(), free_port()
    stop = server.start(port, server.liveness(Health(60), hanging))
    try:
        assert await get(f"http://127.0.0.1:{port}/healthz") == 500
    finally:
        await asyncio.to_thread(stop)
        hanging.close()


def test_a_port_that_is_taken_is_an_error() -> None:
    with listen(0) as taken, pytest.raises(OSError, match="in use"):
        server.start(int(taken.getsockname()[1]), server.readiness(Health(60)))


def test_without_ipv6_ipv4_is_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listen(0) as listening:
        assert listening.family is socket.AF_INET
