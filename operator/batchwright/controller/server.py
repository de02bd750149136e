"""/metrics, /readyz and /healthz over HTTP, each port in a thread of its own."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from batchwright.controller.health import Health
from batchwright.listening import listen

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


logger = logging.getLogger(__name__)
_ANSWER_SECONDS = 4.0
"""Less than the probes' own time limits, so that the log names the cause."""


class _Quiet(WSGIRequestHandler):
    """Logs no requests: probes and scrapes come every few seconds."""

    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(WSGIServer):
    """Takes a socket that listens already."""

    def __init__(self, listening: socket.socket) -> None:
        address = listening.getsockname()[:2]
        super().__init__(address, _Quiet, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = address
        self.setup_environ()


def readiness(health: Health) -> "WSGIApplication":
    """/metrics and /readyz, and 404 for everything else."""
    metrics_of: WSGIApplication = make_wsgi_app()

    def serve(environment: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        match environment.get("PATH_INFO"):
            case "/metrics":
                return metrics_of(environment, start)
            case "/readyz":
                return _answer(start, "200 OK" if health.ready() else "503 Service Unavailable")
            case _:
                return _answer(start, "404 Not Found")

    return serve


def liveness(health: Health, loop: asyncio.AbstractEventLoop) -> "WSGIApplication":
    """/healthz, answered by the event loop itself: a loop that hangs answers nobody."""

    async def problem() -> str | None:
        return health.problem()

    def asked() -> str | None:
        future = asyncio.run_coroutine_threadsafe(problem(), loop)
        try:
            return future.result(_ANSWER_SECONDS)
        except TimeoutError:
            future.cancel()
            return "the event loop hangs"

    def serve(environment: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        if environment.get("PATH_INFO") != "/healthz":
            return _answer(start, "404 Not Found")
        found = asked()
        if found is None:
            return _answer(start, "200 OK")
        logger.error("not alive: %s", found)
        return _answer(start, "500 Internal Server Error", found)

    return serve


def start(port: int, served: "WSGIApplication") -> Callable[[], None]:
    """Serve; returns a function that stops it.

    Raises:
        OSError: the port is taken.
    """
    server = _Server(listen(port))
    server.set_app(served)
    thread = Thread(target=server.serve_forever, name=f"http-{port}", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)

    return stop


def _answer(start: "StartResponse", status: str, text: str = "") -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain")])
    return [f"{text or status}\n".encode()]
