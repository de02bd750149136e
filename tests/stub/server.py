"""The server as a whole: two ports, the routes of the main one, start and end."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from stub import errors, wire
from stub.arrivals import ArrivalLog
from stub.control import Control
from stub.errors import ApiError
from stub.inference import ENDPOINTS, authorize, infer, middleware_headers, refusal
from stub.journal import Journal
from stub.listener import Listener
from stub.models import model_list
from stub.settings import Settings
from stub.state import State
from stub.stats import METRICS_TYPE, metrics_text

POLL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What is settled when the server starts. Ports of 0 are chosen by the system."""

    host: str = "127.0.0.1"
    port: int = 0
    control_port: int = 0
    """Serves /stub only, and stays open while the main port refuses connections."""
    settings: Settings = field(default_factory=Settings)
    shutdown_timeout: float = 0.0
    """Seconds for which requests in flight may go on after SIGTERM, before they are aborted."""
    tls_cert: str | None = None
    tls_key: str | None = None
    log_keys: int = 200_000
    log_last: int = 10_000
    journal: Path | None = None
    """Keeps arrivals and answers, so that a server that is started again goes on counting."""


class StubServer:
    """A model server on `port`, controlled through /stub on both ports."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._journal = Journal(config.journal) if config.journal else None
        log = ArrivalLog(max_keys=config.log_keys, last=config.log_last, journal=self._journal)
        self.state = State(config.settings, log)
        self._control = Control(self.state, apply=self.apply, open_connections=lambda: len(self._main.connections))
        self._main: web.Server
        self._listener: Listener
        self._control_server: web.Server
        self._control_listener: Listener

    @property
    def url(self) -> str:
        scheme = "https" if self._config.tls_cert else "http"
        return f"{scheme}://{_address(self._config.host)}:{self._listener.port}"

    @property
    def control_url(self) -> str:
        return f"http://{_address(self._config.host)}:{self._control_listener.port}"

    async def start(self) -> None:
        """Open both ports. Raises OSError where one is taken."""
        # A batch worker that is killed must not leave its requests running: they end with their connection.
        self._main = web.Server(self._handle, handler_cancellation=True, access_log=None, max_field_size=1 << 16)
        self._control_server = web.Server(self._control.handle, access_log=None)
        config = self._config
        self._listener = Listener(self._accept, host=config.host, port=config.port, tls=_tls(config))
        self._control_listener = Listener(self._control_server, host=config.host, port=config.control_port)
        await self._control_listener.open()
        if not self.state.settings.drain:
            await self._listener.open()

    async def apply(self, settings: Settings) -> None:
        """Put settings in force."""
        self.state.apply(settings)
        if settings.drain:
            self._listener.close()
        else:
            await self._listener.open()

    async def shut_down(self) -> None:
        """Refuse what is new, wait for what is in flight, abort what remains, close everything."""
        self.state.settings = self.state.settings.merged(
            {"drain": True, "drain_error": self._config.shutdown_timeout > 0}
        )
        self._listener.close()
        await self._wait_for_flight(self._config.shutdown_timeout)
        self.state.flight.abort()
        await self._wait_for_flight(1.0)
        await self.stop()

    async def stop(self) -> None:
        """Close everything at once."""
        self._listener.close()
        self._control_listener.close()
        self.state.idle.stop()
        self.state.flight.release()
        for server in (self._main, self._control_server):
            server.pre_shutdown()
            await server.shutdown(timeout=0.1)
        if self._journal:
            self._journal.close()

    async def _wait_for_flight(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        # An event would cost every request; the end comes once.
        while self.state.stats.in_flight and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(POLL)

    def _accept(self) -> asyncio.Protocol:
        self.state.stats.connections += 1
        return self._main()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        idle_close, transport = self.state.settings.idle_close, request.transport
        if transport is not None:
            self.state.idle.busy(transport)
        try:
            return await self._route(request)
        finally:
            if idle_close is not None and transport is not None and not transport.is_closing():
                self.state.idle.idle(transport, idle_close)

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        if path in ENDPOINTS and method == "POST":
            return await infer(self.state, request, path)
        if path.startswith("/stub/"):
            return await self._control.handle(request)
        self.state.stats.other[path if path in _READABLE else "unknown"] += 1
        headers = middleware_headers(self.state, request)
        try:
            return self._read_only(request, headers)
        except ApiError as error:
            return refusal(self.state, error, headers)

    def _read_only(self, request: web.BaseRequest, headers: dict[str, str]) -> web.Response:
        settings = self.state.settings
        if request.path.startswith("/v1/"):
            authorize(self.state, request)
        if request.path not in _READABLE and request.path not in ENDPOINTS:
            raise errors.not_found()
        if request.method != "GET" or request.path in ENDPOINTS:
            raise errors.method_not_allowed("POST" if request.path in ENDPOINTS else "GET")
        if request.path == "/health":
            return web.Response(status=503 if settings.drain else settings.health, headers=headers)
        if request.path == "/metrics":
            text = metrics_text(self.state.stats, self.state.capacity, settings)
            return web.Response(body=text.encode(), headers={**headers, "Content-Type": METRICS_TYPE})
        if request.path == "/version":
            return wire.respond(wire.encode_error(200, {"version": "0.32.0"}), headers)
        return wire.respond(wire.encode_error(200, model_list(settings.models, settings.max_model_len)), headers)


_READABLE = frozenset({"/health", "/metrics", "/v1/models", "/version"})


@contextlib.asynccontextmanager
async def serving(config: Config) -> AsyncIterator[StubServer]:
    """Run a server in this event loop, for as long as the context lasts."""
    server = StubServer(config)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _address(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.tls_cert, config.tls_key)
    return context
