"""A store that sends its clients elsewhere is not followed: requests go to the endpoint of the settings alone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from batchwright.storage.errors import StorageError
from batchwright.storage.protocol import ObjectStore
from batchwright.storage.s3 import S3Store
from batchwright.storage.s3_client import S3Clients
from batchwright.storage.settings import StorageSettings
from fixtures.s3 import S3Server

ERROR = """<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>{code}</Code><Message>Go there.</Message><Endpoint>{host}</Endpoint><Bucket>b</Bucket></Error>"""
CODES = {301: "PermanentRedirect", 302: "Found", 303: "SeeOther", 307: "TemporaryRedirect", 308: "PermanentRedirect"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, status: int, elsewhere: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.elsewhere = elsewhere
        self.asked: list[str] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append(f"{self.command} {self.path}")
        elsewhere = self.server.elsewhere
        body = ERROR.format(code=CODES.get(self.server.status, "OK"), host=elsewhere).encode()
        body = b"" if self.command == "HEAD" else body
        self.send_response(self.server.status)
        if elsewhere:
            self.send_header("Location", f"http://{elsewhere}{self.path}")
            self.send_header("x-amz-bucket-region", "eu-west-9")
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def serving(server: _Server) -> Iterator[_Server]:
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "read": lambda store: store.read("k"),
    "head": lambda store: store.head("k"),
    "write": lambda store: store.write("k", b"secret"),
    "list": lambda store: list(store.list("p/")),
}


@pytest.mark.parametrize("status", CODES)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
def test_a_redirect_is_not_followed(
    s3_server: S3Server, status: int, operation: Callable[[ObjectStore], object]
) -> None:
    with serving(_Server(200)) as inside, serving(_Server(status, inside.host)) as store:
        settings = StorageSettings(endpoint_url=f"http://{store.host}", addressing_style="path", max_attempts=1)
        with pytest.raises(StorageError):
            operation(S3Store("b", S3Clients(settings, s3_server.root.credentials_dir, None)))
        assert store.asked
        assert inside.asked == []
