"""A worker's small HTTP server: /progress for the operator, /healthz and /readyz for the kubelet."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from batchwright.api.reports import Progress

_SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """What is served: the counts by now, and whether the worker gets answers from the model server."""

    progress: Callable[[], Progress]


@asynccontextmanager
async def serving(served: Served, port: int, host: str = "0.0.0.0") -> AsyncIterator[int]:  # noqa: S104 - pod network
    """Serve while the body runs; gives the port."""

    async def progress(_: web.Request) -> web.Response:
        text = served.progress().model_dump_json(by_alias=True, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        report = served.progress()
        if report.server_available:
            return web.Response(text="ok")
        return web.Response(status=503, text=report.server_message)

    app = web.Application()
    app.add_routes([web.get("/progress", progress), web.get("/healthz", health), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
