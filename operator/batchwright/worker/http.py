"""The small HTTP server of a worker and of the merge: /progress for the operator, /healthz and /readyz for the kubelet.

Both probes say that the event loop answers, and no more: a worker waits for a model server that is away, and killing or
hiding it would mend nothing.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from aiohttp import web

from batchwright.api.reports import MergeProgress, Progress

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 1.0
_LEAVE_SECONDS = 3.0
"""What a server in a thread gets for its end."""


@dataclass(frozen=True, slots=True)
class Served:
    """What is served: the counts by now."""

    progress: Callable[[], Progress | MergeProgress]


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


@contextmanager
def serving_in_thread(served: Served, port: int) -> Iterator[None]:
    """Serve while the body runs, for a stage without an event loop. It goes on where the port can't be had: progress
    is not worth a failure.
    """
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving(served, port):
            await ended.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except OSError as error:
            logger.warning("the progress can't be served: %s", error)

    thread = threading.Thread(target=run, name="batchwright-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(_LEAVE_SECONDS)
        if not thread.is_alive():
            loop.close()
