"""uvicorn's HTTP protocol with bounds on how long and how large a request's head may be, and on connections.

uvicorn bounds idle connections alone, and the head's size with another parser only: a client that sends one byte of its
head now and then, or a head without an end, would hold a connection or the memory for ever. Above its bound on
connections it answers in plain text; here the application is told, and answers as it does to every other error.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from batchwright.gateway.errors import ApiError

HEAD_SECONDS: Final = 20.0
"""For a request's line and headers; and for what a client still sends of a body after it has been answered."""
HEAD_BYTES: Final = 65_536
"""A Kubernetes token takes a few KiB of them."""
OVERLOADED: Final = "overloaded"
"""Name in the state of a request that came when there were more connections than the gateway serves at once."""


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Asyncio's call: a client has connected."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call: the connection is gone."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Asyncio's call: bytes came."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._head_bytes = self._head_bytes + len(data) if self._in_head else 0
        if self._head_bytes > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request's headers are too large.")
        elif self._is_idle():
            self._expect_head()

    def on_message_begin(self) -> None:
        """The parser's call: a request begins."""
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        """The parser's call: a head is there."""
        self._in_head = False
        self._stop_timer()
        overloaded = self.scope["state"][OVERLOADED] = self._is_overloaded()
        super().on_headers_complete()
        if overloaded and not self._has_body():
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """uvicorn's call: what came is no HTTP. Answered like every other error."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _is_overloaded(self) -> bool:
        """Whether more connections are there than allowed, or as many requests at work: clients may have left some."""
        return self._most is not None and (len(self.connections) > self._most or len(self.tasks) >= self._most)

    def _has_body(self) -> bool:
        """Whether the request announces one: who still sends it would lose an answer after which all is closed."""
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    def _is_idle(self) -> bool:
        """Whether every request so far has been answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first
        return cycle is None or cycle.response_complete

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps(ApiError(status, message).body()).encode()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
