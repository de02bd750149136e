"""A minimal HTTP/1.1 client on asyncio.Protocol and httptools, for bench/dispatch.py alone.

It shows the cost of HTTP in Python without a library. It has no TLS, no deadlines, no limits, no close
races and no decompression: what a real one would have to add, and keep right for years.
"""

import asyncio
from typing import cast
from urllib.parse import urlsplit

import httptools


class Connection(asyncio.Protocol):
    """One kept connection with at most one request in flight."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, dict[bytes, bytes], bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, dict[bytes, bytes], bytes]]:
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class OwnClient:
    """A pool that grows to the concurrency of its caller."""

    def __init__(self, url: str, limit: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port, self._limit = parts.hostname, parts.port or 80, limit
        self._idle: list[Connection] = []
        self._open: list[Connection] = []

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[bytes, bytes], bytes]:
        connection = self._idle.pop() if self._idle else await self._connect()
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        answer = await connection.ask(head.encode() + body)
        self._idle.append(connection)
        return answer

    async def _connect(self) -> Connection:
        assert len(self._open) < self._limit
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self._host, self._port)
        self._open.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._open:
            connection.close()
