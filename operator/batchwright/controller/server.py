"""/metrics and /readyz over HTTP, in a thread of their own."""

from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from batchwright.controller.health import Health

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class _Quiet(WSGIRequestHandler):
    """Logs no requests: probes and scrapes come every few seconds."""

    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        pass


def application(health: Health) -> "WSGIApplication":
    """The two paths, and 404 for everything else."""
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


def start(port: int, health: Health) -> Callable[[], None]:
    """Serve; returns a function that stops it.

    Raises:
        OSError: the port is taken.
    """
    server: WSGIServer = make_server("", port, application(health), handler_class=_Quiet)
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)

    return stop


def _answer(start: "StartResponse", status: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain")])
    return [f"{status}\n".encode()]
