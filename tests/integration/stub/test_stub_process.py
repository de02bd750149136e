"""The stub as a process of its own: signals, ports, certificates."""

import asyncio
import contextlib
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import httpx
import pytest

from fixtures.stub_client import CHAT, chat, connect, request
from stub.harness import WAIT, StubProcess

# The server brings its own event loop here; the client's makes no difference.
one_loop = pytest.mark.asyncio(loop_factories=["asyncio"])


def test_the_fixture_is_as_after_a_start(stub: StubProcess) -> None:
    with httpx.Client(base_url=stub.url, trust_env=False) as client:
        stub.switch(requests="status=500")
        assert client.post(CHAT, json=chat()).status_code == 500
        stub.reset()
        assert client.post(CHAT, json=chat()).json()["choices"][0]["message"]["content"] == "dlrow olleh"
    assert stub.stats().by_status == {200: 1}
    assert stub.arrivals().total == 1


def test_with_a_journal_a_server_that_is_killed_and_started_again_goes_on_counting(
    start_stub: Callable[..., StubProcess], tmp_path: Path
) -> None:
    first = start_stub(journal=tmp_path / "journal")
    _ask_once(first, "a")
    first.kill()
    second = start_stub(journal=tmp_path / "journal")
    _ask_once(second, "a")
    arrivals = second.arrivals()
    assert (arrivals.arrived, arrivals.answered, arrivals.kept) == ({"a": 2}, {"a": 2}, True)


def _ask_once(stub: StubProcess, key: str) -> None:
    body = chat() | {"metadata": {"id": key}}
    assert httpx.post(f"{stub.url}{CHAT}", json=body, trust_env=False).status_code == 200


@one_loop
async def test_sigterm_aborts_what_is_in_flight_and_ends_with_0(start_stub: Callable[..., StubProcess]) -> None:
    stub = start_stub(delay="30")
    status, finish = await _ask_and_then(stub, stub.terminate)
    assert (status, finish) == (200, "abort")
    assert stub.process.wait(WAIT) == 0


@one_loop
async def test_a_shutdown_timeout_lets_what_is_in_flight_end(start_stub: Callable[..., StubProcess]) -> None:
    stub = start_stub(delay="0.5", shutdown_timeout=10)
    status, finish = await _ask_and_then(stub, stub.terminate)
    assert (status, finish) == (200, "stop")
    assert stub.process.wait(WAIT) == 0


@one_loop
async def test_meanwhile_what_comes_on_old_connections_is_refused(start_stub: Callable[..., StubProcess]) -> None:
    stub = start_stub(delay="30", shutdown_timeout=30)
    reader, writer = await connect(stub)
    in_flight = asyncio.create_task(_ask_and_then(stub, stub.terminate))
    await asyncio.to_thread(_wait_refused, stub)
    writer.write(request(chat()))
    received = await asyncio.wait_for(reader.readuntil(b"}}"), 10)
    assert received.startswith(b"HTTP/1.1 500")
    assert b"cannot schedule new futures after shutdown" in received
    writer.close()
    stub.abort()
    assert await in_flight == (200, "abort")


@one_loop
async def test_sigkill_breaks_every_connection(start_stub: Callable[..., StubProcess]) -> None:
    stub = start_stub(delay="30")
    with pytest.raises(aiohttp.ClientConnectionError):
        await _ask_and_then(stub, stub.kill)
    assert stub.process.wait(WAIT) == -signal.SIGKILL


@one_loop
async def test_a_stopped_process_accepts_and_says_nothing(start_stub: Callable[..., StubProcess]) -> None:
    stub = start_stub(delay="0")
    stub.stop_answering()
    timeout = aiohttp.ClientTimeout(total=0.5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with pytest.raises(TimeoutError):
            await session.post(stub.url + CHAT, json=chat())
    stub.go_on()
    async with aiohttp.ClientSession() as session, session.post(stub.url + CHAT, json=chat()) as response:
        assert response.status == 200


def test_a_port_that_is_taken_is_named(start_stub: Callable[..., StubProcess]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RuntimeError, match="exit code 1"):
        start_stub(port=taken.getsockname()[1])


def test_it_speaks_https_with_a_certificate_of_ones_own(start_stub: Callable[..., StubProcess], tmp_path: Path) -> None:
    certificate, key = _self_signed(tmp_path)
    stub = start_stub(tls_cert=certificate, tls_key=key)
    assert stub.url.startswith("https://")
    trusted = ssl.create_default_context(cafile=certificate)
    with httpx.Client(verify=trusted, trust_env=False) as client:
        assert client.post(stub.url + CHAT, json=chat()).status_code == 200
    with httpx.Client(trust_env=False) as client, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        client.post(stub.url + CHAT, json=chat())


def _wait_refused(stub: StubProcess) -> None:
    address = urlsplit(stub.url)
    with contextlib.suppress(ConnectionRefusedError):
        for _ in range(1500):
            socket.create_connection((address.hostname, address.port), timeout=10).close()
            time.sleep(0.02)
        pytest.fail("it still takes connections")


async def _ask_and_then(stub: StubProcess, act: Callable[[], None]) -> tuple[int, str]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:

        async def ask() -> tuple[int, str]:
            async with session.post(stub.url + CHAT, json=chat("a b c d")) as response:
                return response.status, (await response.json())["choices"][0]["finish_reason"]

        task = asyncio.create_task(ask())
        await asyncio.to_thread(stub.wait_in_flight, 1)
        act()
        return await task


def _self_signed(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate, key
