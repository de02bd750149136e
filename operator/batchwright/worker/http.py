"""A worker's small HTTP server: /progress for the operator, /healthz and /readyz for the kubelet.

Both probes say that the event loop answers, and no more: a worker waits for a model server that is away, and killing or
hiding it would mend nothing.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from batchwright.api.reports import Progress

_SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """What is served: the counts by now."""

    progress: Callable[[], Progress]


@asynccontextmanager
async def serving(served: Served, port: int, host: str | None = None) -> AsyncIterator[None]:
    """Serve while the body runs. No host: every address of the pod, be it IPv4, IPv6 or both."""

    async def progress(_: web.Request) -> web.Response:
        text = served.progress().model_dump_json(by_alias=True, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/progress", progress), web.get("/healthz", health), web.get("/readyz", health)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield
    finally:
        await runner.cleanup()
