"""One server with several addresses: each gets its share, and one that fails gets nothing for a while.

Why by name, and not through the Kubernetes API: docs/adr/0005-spreading-over-replicas.md.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from batchwright.worker.transport.addresses import Resolver
from batchwright.worker.transport.aiohttp_transport import AiohttpTransport
from batchwright.worker.transport.answer_body import AnswerBodies
from batchwright.worker.transport.endpoints import CHECK_SECONDS, SILENCE_SECONDS, Address, Check, Endpoint, Endpoints
from batchwright.worker.transport.errors import (
    AnswerTimeout,
    AnswerTooLarge,
    ConnectFailed,
    ConnectionLost,
    TransportError,
)
from batchwright.worker.transport.flights import Flights
from batchwright.worker.transport.health import HEALTH_PATH, is_alive
from batchwright.worker.transport.name_lookup import NameLookup
from batchwright.worker.transport.protocol import Answer, Body
from batchwright.worker.transport.settings import TransportSettings, split_base_url
from batchwright.worker.transport.system_resolver import SystemResolver

logger = logging.getLogger(__name__)

_HTTP_UNAVAILABLE: Final = 503
_HTTP_REFUSED: Final = frozenset({401, 403, 429})
"""The server turned the request away, whatever is in it."""

Result = Answer | TransportError


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the addresses are looked after, in seconds."""

    lookup: float = 10.0
    """Between two lookups of the name, give or take a fifth. A failure makes the next one come at once."""
    tick: float = CHECK_SECONDS
    """Between two looks at what the addresses do; also the pause between the checks of one that fails."""
    silence: float = SILENCE_SECONDS
    """See `endpoints.SILENCE_SECONDS`."""
    answer: float = 5.0
    """How long a check waits for its answer."""
    penalty: float = 1.0
    """How long a request that the server failed still counts as in flight. What fails fast would seem idle
    otherwise, and a replica that refuses everything would draw most of the traffic."""


@dataclass(slots=True, eq=False)
class _Replica:
    transport: AiohttpTransport
    flights: Flights = field(default_factory=Flights)
    is_checked: bool = False
    """Whether a check is under way that the keeper has begun."""


class SpreadTransport:
    """Sends each request to one of the addresses that the host's name stands for."""

    def __init__(
        self,
        settings: TransportSettings,
        *,
        tls: ssl.SSLContext | bool = True,
        resolver: Resolver | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Nothing is looked up yet. `tls` is what `tls_context` makes of the settings."""
        self._settings = settings
        self._tls = tls
        self._bodies = AnswerBodies(settings.max_answer_bytes)
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._endpoints = Endpoints(self._pace.silence, self._pace.tick)
        self._replicas: dict[Endpoint, _Replica] = {}
        self._lookup = NameLookup(
            split_base_url(settings.base_url).hostname or "",
            resolver or SystemResolver(),
            self._take_over,
            pause=self._pace.lookup,
            least_pause=self._pace.tick,
            longest=settings.connect_seconds,
        )
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._shown: frozenset[Address] = frozenset()
        self._closed = False

    # Requests

    async def post(
        self,
        path: str,
        body: Body,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109
        affinity: int | None = None,
    ) -> Answer:
        """See `Transport.post`."""
        if not self._endpoints.usable:  # looked at here too, since a coroutine more would cost every request
            timeout = await self._find_addresses(timeout)
        endpoint = self._endpoints.start(affinity, self._loop.time())
        replica = self._replicas[endpoint]
        task = replica.flights.begin()
        failed = False
        try:
            answer = await replica.transport.post(path, body, headers=headers, timeout=timeout)
            failed = not is_alive(answer) or answer.status in _HTTP_REFUSED
        except TransportError as error:
            failed = not isinstance(error, AnswerTooLarge)
            self._note_error(endpoint, error)
            raise
        except asyncio.CancelledError:
            if not replica.flights.is_dropped(task):
                raise
            failed = True
            raise ConnectionLost(f"the replica {', '.join(endpoint.address)} no longer answered") from None
        finally:
            replica.flights.end(task)
            if failed and len(self._replicas) > 1:
                self._loop.call_later(self._pace.penalty, self._endpoints.finish, endpoint)
            else:
                self._endpoints.finish(endpoint)
        self._note_answer(endpoint, answer)
        return answer

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """See `Transport.get`. An address that can't be connected to is no answer while there are others."""
        timeout = await self._find_addresses(timeout)
        end = self._loop.time() + timeout
        error: TransportError = ConnectFailed(f"no address found for {self._settings.origin}")
        tried = set[Endpoint]()
        # Which there are may change during each wait.
        while endpoint := next((one for one in self._endpoints.usable if one not in tried), None):
            tried.add(endpoint)
            client = self._replicas[endpoint].transport
            try:
                return await client.get(path, headers=headers, timeout=end - self._loop.time())
            except ConnectFailed as failed:
                error = failed
                self._note_error(endpoint, failed)
        raise error

    async def get_each(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
    ) -> Sequence[Result]:
        """See `Transport.get_each`."""
        try:
            timeout = await self._find_addresses(timeout)
        except TransportError as error:
            return (error,)
        return tuple((await self._ask(self._endpoints.usable, path, headers, timeout)).values())

    async def probe(self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> Answer:  # noqa: ASYNC109
        """See `Transport.probe`."""
        timeout = await self._find_addresses(timeout)
        return _best(await self._check(self._endpoints.listed, path, headers, timeout))

    async def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True
        await self._lookup.close()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        await asyncio.gather(*(replica.transport.close() for replica in self._replicas.values()))

    def _note_answer(self, endpoint: Endpoint, answer: Answer) -> None:
        self._lookup.prove()
        self._endpoints.hear(endpoint, self._loop.time())
        if answer.status == _HTTP_UNAVAILABLE:
            self._endpoints.suspect(endpoint)
            self._wake.set()

    def _note_error(self, endpoint: Endpoint, error: TransportError) -> None:
        now = self._loop.time()
        match error:
            case AnswerTooLarge():
                self._endpoints.hear(endpoint, now)
            case ConnectFailed():
                self._lookup.doubt()
                self._endpoints.lose(endpoint, now)
                self._hurry()
            case ConnectionLost():
                self._endpoints.suspect(endpoint)
                self._hurry()

    def _hurry(self) -> None:
        """Look for other addresses, and at those that are known, as soon as is decent."""
        self._lookup.hurry()
        self._wake.set()

    # Addresses

    async def _find_addresses(self, seconds: float) -> float:
        """Wait until an address is known; gives what is left of `seconds`.

        Raises:
            ConnectFailed: none was found in time, or the transport is closed.
        """
        if self._endpoints.usable:
            return seconds
        begun = self._loop.time()
        if not self._closed:
            await asyncio.wait({self._lookup.start()}, timeout=min(seconds, self._settings.connect_seconds))
        if self._closed:
            raise ConnectFailed("the transport is closed")
        if not self._endpoints.usable:
            raise ConnectFailed(f"no address found for {self._settings.origin}")
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        return seconds - (self._loop.time() - begun)

    def _take_over(self, addresses: Sequence[Address]) -> None:
        for endpoint in self._endpoints.update(addresses, self._loop.time()):
            client = AiohttpTransport(self._settings, tls=self._tls, address=endpoint.address, bodies=self._bodies)
            self._replicas[endpoint] = _Replica(client)
        self._show_changes()

    # Looking after them

    async def _keep(self) -> None:
        """Look after them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.tick):
                        await self._wake.wait()
                self._wake.clear()
                try:
                    self._tend(tasks)
                except Exception:
                    logger.exception("looking after the addresses of %s failed", self._settings.origin)
                await asyncio.sleep(self._pace.tick / 10)  # many failures at once are one reason to look

    def _tend(self, tasks: asyncio.TaskGroup) -> None:
        """What waits for an address has a task of its own, so that nothing else waits for it."""
        self._lookup.start_if_due()
        for suspect in self._endpoints.suspects(self._loop.time()):
            replica = self._replicas[suspect]
            if not replica.is_checked:
                replica.is_checked = True
                tasks.create_task(self._check_one(suspect, replica))
        for drained in self._endpoints.remove_drained():
            tasks.create_task(self._close_one(drained))

    async def _check_one(self, suspect: Endpoint, replica: _Replica) -> None:
        try:
            await self._check([suspect], HEALTH_PATH, None, self._pace.answer)
        except Exception:
            logger.exception("checking %s failed", ", ".join(suspect.address))
        finally:
            replica.is_checked = False

    async def _close_one(self, drained: Endpoint) -> None:
        try:
            await self._replicas[drained].transport.close()
        except Exception:
            logger.exception("closing the connections to %s failed", ", ".join(drained.address))
        del self._replicas[drained]

    async def _check(
        self,
        endpoints: Sequence[Endpoint],
        path: str,
        headers: Mapping[str, str] | None,
        seconds: float,
    ) -> Sequence[Result]:
        """Ask some addresses whether they are alive, and act on it."""
        began = self._loop.time()
        results = await self._ask(endpoints, path, headers, seconds)
        checks = {one: _verdict(result) for one, result in results.items()}
        if any(check is Check.REFUSING for check in checks.values()):
            self._hurry()
        for lost in self._endpoints.apply(checks, began, self._loop.time()):
            logger.info("giving up what is in flight to %s", ", ".join(lost.address))
            self._replicas[lost].flights.drop()
        self._show_changes()
        return tuple(results.values())

    async def _ask(
        self,
        endpoints: Sequence[Endpoint],
        path: str,
        headers: Mapping[str, str] | None,
        seconds: float,
    ) -> dict[Endpoint, Result]:
        clients = [self._replicas[one].transport for one in endpoints]
        each = await asyncio.gather(*(one.get_each(path, headers=headers, timeout=seconds) for one in clients))
        return {one: result for one, (result,) in zip(endpoints, each, strict=True)}

    def _show_changes(self) -> None:
        usable = frozenset(one.address for one in self._endpoints.usable)
        if usable != self._shown:
            self._shown = usable
            total = len(self._endpoints.listed)
            logger.info("%s has %d addresses, %d of them in use", self._settings.origin, total, len(usable))


def _verdict(result: Result) -> Check:
    match result:
        case AnswerTimeout():
            return Check.SILENT
        case Answer() if is_alive(result):
            return Check.ALIVE
        case _:
            return Check.REFUSING


def _best(results: Sequence[Result]) -> Answer:
    """The best of several answers, or one of the errors raised."""
    answers = [result for result in results if isinstance(result, Answer)]
    if answers:
        return min(answers, key=lambda answer: answer.status)
    errors = [result for result in results if isinstance(result, TransportError)]
    # Where one may only be late, the server isn't sure to be gone.
    raise next((error for error in errors if isinstance(error, AnswerTimeout)), errors[0])
