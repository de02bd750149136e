"""The transport over aiohttp. Why aiohttp: docs/adr/0002-http-transport.md."""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from batchwright.worker.transport.addresses import PinnedResolver
from batchwright.worker.transport.answer_body import BUFFER_BYTES, AnswerBodies
from batchwright.worker.transport.connection_age import response_class
from batchwright.worker.transport.deadlines import Deadlines
from batchwright.worker.transport.endpoints import Address
from batchwright.worker.transport.errors import (
    AnswerTimeout,
    ConnectFailed,
    ConnectionLost,
    TransportError,
)
from batchwright.worker.transport.large_body import LARGE_BYTES, LargeBody
from batchwright.worker.transport.protocol import Answer, Body
from batchwright.worker.transport.settings import TransportSettings
from batchwright.worker.transport.system_resolver import SystemResolver

# A server whose node vanished sends nothing at all. Probing an idle connection finds that within
# about half a minute, where the request's own timeout may be many minutes.
_PROBE_AFTER_SECONDS, _PROBE_EVERY_SECONDS, _PROBES = 15, 5, 3

# A server that no longer reads keeps a connection from closing in good order.
_CLOSE_SECONDS = 2.0


class AiohttpTransport:
    """POSTs over a pool of kept connections, GETs over a new connection each; all to one address.

    GETs ask whether the server is alive, at times when every connection of the pool may hang. One that
    waited for the pool, or went out on an old connection, would give no answer to that.
    """

    def __init__(
        self,
        settings: TransportSettings,
        *,
        tls: ssl.SSLContext | bool = True,
        address: Address | None = None,
        bodies: AnswerBodies | None = None,
    ) -> None:
        """Nothing is connected yet. `tls` is what `tls_context` makes of the settings.

        With `address`, connections go there, whatever the name of the host stands for. `bodies` is shared by
        transports whose answers have one budget.
        """
        self._settings = settings
        self._origin = f"{settings.origin} ({', '.join(address)})" if address else settings.origin
        resolving: dict[str, Any] = {"resolver": SystemResolver()}
        if address:
            # A pinned address needs no cache, and without one a request that is being connected can be given up.
            resolving = {"resolver": PinnedResolver(address), "use_dns_cache": False}
        self._pool = _session(
            settings,
            aiohttp.TCPConnector(
                limit=settings.max_connections,
                keepalive_timeout=settings.keepalive_seconds,
                ssl=tls,
                socket_factory=_probed_socket,
                **resolving,
            ),
            response_class=response_class(settings.max_connection_age_seconds),
        )
        self._fresh = _session(
            settings,
            aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls, socket_factory=_probed_socket, **resolving),
            middlewares=(_one_attempt,),
        )
        self._post_bodies = bodies or AnswerBodies(settings.max_answer_bytes)
        self._get_bodies = AnswerBodies(settings.max_answer_bytes)
        self._deadlines = Deadlines()
        # It takes few distinct values, and making one costs as much as a tenth of a request.
        self._url = lru_cache(maxsize=256)(lambda path: URL(settings.url(path), encoded=True))

    async def post(
        self,
        path: str,
        body: Body,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109
        affinity: int | None = None,
    ) -> Answer:
        """See `Transport.post`. There's one address, so `affinity` chooses nothing."""
        _require_time(timeout)
        request = self._pool.post(
            self._url(path),
            data=body if len(body) <= LARGE_BYTES else LargeBody(body),
            headers=headers,
            allow_redirects=False,
        )
        return await self._whole_answer(request, timeout, self._post_bodies)

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """See `Transport.get`."""
        _require_time(timeout)
        request = self._fresh.get(self._url(path), headers=headers, allow_redirects=False)
        return await self._whole_answer(request, timeout, self._get_bodies)

    async def get_each(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
    ) -> Sequence[Answer | TransportError]:
        """See `Transport.get_each`."""
        try:
            return (await self.get(path, headers=headers, timeout=timeout),)
        except TransportError as error:
            return (error,)

    async def probe(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """See `Transport.probe`."""
        return await self.get(path, headers=headers, timeout=timeout)

    async def close(self) -> None:
        """See `Transport.close`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pool.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._fresh.close()

    async def _whole_answer(
        self, request: Awaitable[aiohttp.ClientResponse], seconds: float, bodies: AnswerBodies
    ) -> Answer:
        try:
            with self._deadlines.within(seconds) as deadline:
                response = await request
                body = await bodies.read(response, deadline)
        except (aiohttp.ClientError, OSError) as error:
            self._translate(error, seconds)
        except RuntimeError:
            if self._pool.closed:
                raise ConnectFailed("the transport is closed") from None
            raise
        return Answer(response.status, response.headers, body)

    def _translate(self, error: aiohttp.ClientError | OSError, seconds: float) -> NoReturn:
        """Raise the transport's own error for one of aiohttp's.

        aiohttp's errors carry the request with its headers, credentials among them, so neither their
        text nor they themselves, as the cause, may get into a log.
        """
        origin = self._origin
        match error:
            case _FirstAttemptLost():
                self._translate(error.error, seconds)
            case aiohttp.ClientConnectorDNSError():
                raise ConnectFailed(f"no address found for {origin}") from None
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                raise ConnectFailed(f"TLS with {origin} failed: {_ssl_reason(error)}") from None
            case aiohttp.ClientConnectorError():
                raise ConnectFailed(f"no connection to {origin}: {_os_reason(error)}") from None
            case aiohttp.ConnectionTimeoutError():
                limit = self._settings.connect_seconds
                raise ConnectFailed(f"no connection to {origin} within {limit:g} s") from None
            case aiohttp.ClientHttpProxyError():
                raise ConnectFailed(f"the proxy refused {origin} with {error.status}") from None
            case TimeoutError() if error.errno is None:
                raise AnswerTimeout(f"no whole answer from {origin} within {seconds:g} s") from None
            case aiohttp.ClientPayloadError():
                raise ConnectionLost(f"the answer from {origin} broke off or is damaged") from None
            case aiohttp.ClientResponseError():
                raise ConnectionLost(f"the answer from {origin} is not HTTP") from None
            case aiohttp.ServerDisconnectedError():
                raise ConnectionLost(f"{origin} closed the connection before its answer") from None
            case _:
                raise ConnectionLost(f"the connection to {origin} broke: {_os_reason(error)}") from None


def _session(settings: TransportSettings, connector: aiohttp.TCPConnector, **options: Any) -> aiohttp.ClientSession:
    headers = CIMultiDict(
        {
            hdrs.USER_AGENT: "batchwright-worker",
            hdrs.ACCEPT: "application/json",
            hdrs.CONTENT_TYPE: "application/json",
        }
    )
    headers.update(settings.headers)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        # A request's own deadline is kept by `_whole_answer`, which can make it stand still.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_seconds, ceil_threshold=float("inf")),
        read_bufsize=BUFFER_BYTES,
        trust_env=settings.trust_environment,
        **options,
    )


def _require_time(seconds: float) -> None:
    if seconds <= 0:
        raise AnswerTimeout("no time was left for the request")


async def _one_attempt(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a GET a second time, as it does after these errors and no other."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _FirstAttemptLost(error) from None


class _FirstAttemptLost(aiohttp.ClientError):
    """Carries an error past aiohttp's own second attempt."""

    def __init__(self, error: aiohttp.ClientError) -> None:
        super().__init__()
        self.error = error


def tls_context(settings: TransportSettings) -> ssl.SSLContext | bool:
    """Make what aiohttp wants as `ssl`; True stands for the system's authorities.

    Raises:
        ConnectFailed: `ca_bundle` can't be read as certificates.
    """
    if settings.ca_bundle is None:
        return True
    try:
        return ssl.create_default_context(cafile=settings.ca_bundle)
    except ssl.SSLError:
        raise ConnectFailed("the CA bundle holds no certificates in PEM form") from None
    except OSError as error:
        raise ConnectFailed(f"the CA bundle can't be read: {_os_reason(error)}") from None


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Make the socket for a connection that notices a vanished peer."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    return made


def _ssl_reason(error: aiohttp.ClientSSLError) -> str:
    cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    return getattr(cause, "reason", None) or type(cause).__name__


def _os_reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else type(error).__name__
