"""The task that looks after a model server: probes it when requests give reason to, and finds its return."""

import asyncio
import math
from collections.abc import Mapping
from typing import Final, Protocol

from batchwright.worker.api_key import ApiKey
from batchwright.worker.served_models import MODELS_PATH
from batchwright.worker.server.findings import Cause, Health, Step
from batchwright.worker.server.gate import Gate
from batchwright.worker.server.models import Listing, listing_of
from batchwright.worker.transport.errors import AnswerTimeout, TransportError
from batchwright.worker.transport.health import HEALTH_PATH, is_alive
from batchwright.worker.transport.protocol import Transport

_LOOK_SECONDS: Final = 1.0
"""Between two looks while nothing is due: requests may have been sent, or the key's file changed."""


class ModelList(Protocol):
    """Who can tell whether the server lists the model."""

    async def ask_models(self) -> Listing:
        """Whether it does, asked for after the call. Raises Stopping where the worker leaves meanwhile."""
        ...


class Watch:
    """Does what Availability asks for, and lets the gate know. One for each worker."""

    def __init__(self, transport: Transport, gate: Gate, api_key: ApiKey, model: str) -> None:
        self._transport = transport
        self._gate = gate
        self._availability = gate.availability
        self._api_key = api_key
        self._model = model
        self._askers: list[asyncio.Future[Listing]] = []
        self._ask_from = -math.inf
        """When the models may be asked for next."""
        self._key: Mapping[str, str] = {}

    async def run(self) -> None:
        """Look after the server until cancelled.

        Raises:
            StageFailed: there never was an API key that can be used.
        """
        self._key = self._api_key.headers()
        while True:
            self._look_at_key()
            self._gate.update()
            self._gate.attention.clear()
            step = self._availability.step(self._gate.clock(), self._gate.in_flight)
            if step is Step.ASK_MODELS or (self._askers and self._gate.clock() >= self._ask_from):
                await self._ask_models()
            elif step is Step.PROBE:
                await self._probe()
            else:
                await self._pause()

    def _look_at_key(self) -> None:
        key = self._api_key.headers()
        if key == self._key:
            return
        self._key = key
        away = self._availability.away
        if away and away.cause is Cause.KEY:
            self._availability.key_changed(self._gate.clock())

    async def _pause(self) -> None:
        now = self._gate.clock()
        next_at = self._availability.next_at(now, self._gate.in_flight)
        if self._askers:
            next_at = min(next_at, self._ask_from)
        try:
            async with asyncio.timeout(min(max(next_at - now, 0.0), _LOOK_SECONDS)):
                await self._gate.attention.wait()
        except TimeoutError:
            pass

    async def _probe(self) -> None:
        began = self._gate.clock()
        health, cause = await self._ask_health()
        drop = self._availability.probed(self._gate.clock(), health, began=began, cause=cause)
        # A server whose probe is answered may answer a trial too, whatever the probe says.
        self._gate.probed(drop=drop, trials=health is not Health.ERRING)

    async def _ask_health(self) -> tuple[Health, str]:
        seconds = self._availability.times.probe_timeout
        try:
            answer = await self._transport.probe(HEALTH_PATH, headers=self._api_key.headers(), timeout=seconds)
        except AnswerTimeout as error:
            return Health.LATE, f"{HEALTH_PATH}: {error}."
        except TransportError as error:
            return Health.GONE, f"{HEALTH_PATH}: {error}."
        if is_alive(answer):
            return Health.ALIVE, ""
        return Health.ERRING, f"{HEALTH_PATH} answered {answer.status}."

    async def ask_models(self) -> Listing:
        """See ModelList. Many that ask at once cost one request, and there is one a second at most."""
        future: asyncio.Future[Listing] = asyncio.get_running_loop().create_future()
        self._askers.append(future)
        self._gate.attention.set()
        return await self._gate.unless_stopped(future)

    async def _ask_models(self) -> None:
        askers, self._askers = self._askers, []
        seconds = self._availability.times.probe_timeout
        results = await self._transport.get_each(MODELS_PATH, headers=self._api_key.headers(), timeout=seconds)
        listing, cause = listing_of(results, self._model)
        self._ask_from = self._gate.clock() + self._availability.times.probe_again
        self._availability.models_asked(self._gate.clock(), listing, cause=cause, in_flight=self._gate.in_flight)
        self._gate.update()
        for future in askers:
            if not future.done():
                future.set_result(listing)
