"""A server on loopback that sends the bytes a test tells it to, and does to the connection what it's told.

It speaks just enough HTTP to find the end of a request, so that it can break every rule in its answer.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

Then = Literal["keep", "close", "reset", "hang"]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server got it; `connection` counts from 1."""

    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes to send, in pieces with a pause before each but the first, and what comes after them."""

    pieces: tuple[bytes, ...]
    then: Then = "keep"
    pause: float = 0.0
    before_body: bool = False
    """Answer after the request's head, without reading its body."""


def reply(*pieces: bytes, then: Then = "keep", pause: float = 0.0, before_body: bool = False) -> Reply:
    return Reply(pieces, then, pause, before_body)


def answer(
    body: bytes = b"{}", *, status: int = 200, headers: dict[str, str] | None = None, then: Then = "keep"
) -> Reply:
    """A well-formed answer."""
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return reply(f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body, then=then)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", headers: str = "", then: Then = "keep") -> Reply:
    """An answer with Transfer-Encoding: chunked; `end` replaces the closing chunk."""
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode()
    return reply(head + b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + end, then=then)


@dataclass
class ScriptedServer:
    """The n-th request gets the n-th reply, and the last one stays."""

    replies: tuple[Reply, ...]
    port: int = 0
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until_closed(self) -> None:
        """Wait until the clients have closed all their connections."""
        await self._until(lambda: self.open_connections == 0)

    async def until_received(self, count: int) -> None:
        await self._until(lambda: len(self.received) >= count)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            await self._converse(self.connections, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client left, as some tests want it to
        finally:
            self.open_connections -= 1
            self._changed.set()
            writer.close()

    async def _converse(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            script = self.replies[min(len(self.received), len(self.replies) - 1)]
            size = 0 if script.before_body else int(headers.get("content-length", "0"))
            body = await reader.readexactly(size)
            self.received.append(Received(number, method, target, headers, body))
            self._changed.set()
            for position, piece in enumerate(script.pieces):
                if position:
                    await asyncio.sleep(script.pause)
                writer.write(piece)
                await writer.drain()
            if script.then == "hang":
                await reader.read()
            if script.then == "reset":
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            if script.then != "keep":
                return


@asynccontextmanager
async def scripted_server(*replies: Reply, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Run a server for the length of a test."""
    scripted = ScriptedServer(replies)
    server = await asyncio.start_server(scripted._serve, "127.0.0.1", 0, ssl=tls)
    scripted.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted
    finally:
        server.close()


def completion(text: str) -> bytes:
    """A chat completion with spaces and escapes that no encoder would put there."""
    return b'{ "choices" : [ {"message": {"content": %b} } ] ,\n"usage":{}}' % json.dumps(text).encode()
