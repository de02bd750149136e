"""Starting the server from a test: in the test's own event loop, or as a process of its own.

async with running_stub(delay="0") as stub:
    await stub.switch(requests="status=503,times=1")

with stub_process(delay="0") as stub:
    stub.switch(requests="status=503,times=1")
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from stub.server import Config, serving
from stub.settings import Settings
from stub.views import ArrivalsView, StatsView

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0
CONTROL_TIMEOUT = 60.0
WAIT = 60.0
POLL = 0.01
ALL = 1_000_000

T = TypeVar("T")
C = TypeVar("C", httpx.Client, httpx.AsyncClient)


class StubHandle:
    """A server in this event loop, controlled over its control port."""

    def __init__(self, url: str, control_url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        """The main port: what a BatchJob names as spec.server.url."""
        self.control_url = control_url
        self._client = client

    async def switch(self, **changes: Any) -> None:
        """Change settings of the whole server (stub.settings.Settings). Raises HTTPStatusError for a bad one."""
        _checked(await self._client.post("/stub/switches", json=changes))

    async def restore(self) -> None:
        """Put the settings of the start in force again."""
        _checked(await self._client.delete("/stub/switches"))

    async def reset(self) -> None:
        """Restore the settings, forget arrivals and counts, let go of what hangs."""
        _checked(await self._client.post("/stub/reset"))

    async def abort(self) -> int:
        """Answer all that wait with finish_reason abort; return how many there were."""
        return int(_checked(await self._client.post("/stub/abort")).json()["aborted"])

    async def arrivals(self) -> ArrivalsView:
        return _decoded(await self._client.get("/stub/arrivals", params={"last": ALL}), ArrivalsView)

    async def stats(self) -> StatsView:
        return _decoded(await self._client.get("/stub/stats"), StatsView)

    async def wait_in_flight(self, count: int, *, seconds: float = WAIT) -> None:
        """Wait until exactly so many requests are in flight. Raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            while (await self.stats()).in_flight != count:  # noqa: ASYNC110 - nothing tells of a change
                await asyncio.sleep(POLL)


class StubProcess:
    """A server in a process of its own, controlled over its control port; its methods block."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, control_url: str, client: httpx.Client) -> None:
        self.process = process
        self.url = url
        self.control_url = control_url
        self._client = client

    def switch(self, **changes: Any) -> None:
        _checked(self._client.post("/stub/switches", json=changes))

    def restore(self) -> None:
        _checked(self._client.delete("/stub/switches"))

    def reset(self) -> None:
        _checked(self._client.post("/stub/reset"))

    def abort(self) -> int:
        return int(_checked(self._client.post("/stub/abort")).json()["aborted"])

    def arrivals(self) -> ArrivalsView:
        return _decoded(self._client.get("/stub/arrivals", params={"last": ALL}), ArrivalsView)

    def stats(self) -> StatsView:
        return _decoded(self._client.get("/stub/stats"), StatsView)

    def wait_in_flight(self, count: int, *, seconds: float = WAIT) -> None:
        end = time.monotonic() + seconds
        while (now := self.stats().in_flight) != count:
            if time.monotonic() > end:
                raise TimeoutError(f"{now} requests are in flight and not {count}, for {seconds:g} s")
            time.sleep(POLL)

    def terminate(self) -> None:
        """Send SIGTERM: what is in flight is aborted, as in vLLM."""
        self.process.terminate()

    def kill(self) -> None:
        """Send SIGKILL: every connection breaks."""
        self.process.kill()

    def stop_answering(self) -> None:
        """Send SIGSTOP: connections are accepted by the system and nothing answers, /stub neither."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextlib.asynccontextmanager
async def running_stub(
    *, port: int = 0, tls_cert: Path | None = None, tls_key: Path | None = None, **settings: Any
) -> AsyncIterator[StubHandle]:
    """Run a server in this event loop; `settings` are those of stub.settings.Settings."""
    config = Config(
        port=port,
        settings=Settings().merged(settings),
        tls_cert=str(tls_cert) if tls_cert else None,
        tls_key=str(tls_key) if tls_key else None,
    )
    async with serving(config) as server, _client(httpx.AsyncClient, server.control_url) as client:
        yield StubHandle(server.url, server.control_url, client)


@contextlib.contextmanager
def stub_process(
    *,
    port: int = 0,
    control_port: int = 0,
    host: str = "127.0.0.1",
    shutdown_timeout: float = 0.0,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    journal: Path | None = None,
    **settings: Any,
) -> Iterator[StubProcess]:
    """Run a server as a process, which ends with the context. Raises RuntimeError where it does not start."""
    command = [
        *(sys.executable, "-m", "stub", "--host", host, "--port", str(port), "--control-port", str(control_port)),
        *("--shutdown-timeout", str(shutdown_timeout), "--switches", json.dumps(settings)),
        *(("--tls-cert", str(tls_cert)) if tls_cert else ()),
        *(("--tls-key", str(tls_key)) if tls_key else ()),
        *(("--journal", str(journal)) if journal else ()),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment())
    try:
        urls = _announcement(process)
        with _client(httpx.Client, urls["control_url"]) as client:
            yield StubProcess(process, urls["url"], urls["control_url"], client)
    finally:
        _end(process)


def _client(kind: type[C], url: str) -> C:
    # The environment's proxies are not for loopback.
    return kind(base_url=url, trust_env=False, timeout=CONTROL_TIMEOUT)


def _environment() -> dict[str, str]:
    folder = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STUB_")}
    return {**inherited, "PYTHONPATH": path}


def _announcement(process: subprocess.Popen[bytes]) -> dict[str, str]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT)
    line = process.stdout.readline() if ready else b""
    if not line:
        process.kill()
        code = process.wait(STOP_TIMEOUT)
        raise RuntimeError(f"the stub did not start within {START_TIMEOUT:g} s (exit code {code})")
    urls: dict[str, str] = json.loads(line)
    return urls


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # A stopped process would sleep through SIGTERM.
        process.send_signal(signal.SIGCONT)
        process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT)
    if process.stdout is not None:
        process.stdout.close()


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
    return response


def _decoded(response: httpx.Response, kind: type[T]) -> T:
    return msgspec.json.decode(_checked(response).content, type=kind, strict=False)
