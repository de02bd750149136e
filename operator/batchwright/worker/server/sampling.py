"""The task that reads the server's metrics while requests are in flight, for the limit to go by."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from batchwright.worker.server.concurrency import ServerLoad
from batchwright.worker.server.load import Metrics, latest_answers, read_metrics, together
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.protocol import Answer, Transport

logger = logging.getLogger(__name__)

METRICS_PATH: Final = "/metrics"
TIMEOUT_SECONDS: Final = 2.0
SAMPLES_PER_SECOND: Final = 8
"""That all workers of a job take together, up to 32 of them: to write its metrics costs a server some milliseconds."""
MAX_INTERVAL_SECONDS: Final = 4.0
MISSES: Final = 3
"""After so many in a row a server that never had such metrics seems to have none: it is asked after twice the time each
time. One that had some is busy."""
RARELY_SECONDS: Final = 60.0
"""The longest time between two looks whether it has some by now."""

_HTTP_OK: Final = 200


class Traffic(Protocol):
    """Who sends the requests, and has a use for the load."""

    in_flight: int

    def loaded(self, load: ServerLoad) -> None:
        """The server's metrics have been read."""
        ...


class Sampling:
    """Asks all addresses of the server about once a second. Where there are no metrics of vLLM's, it is quiet."""

    def __init__(
        self,
        transport: Transport,
        traffic: Traffic,
        *,
        workers: int = 1,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`workers`: how many there are of the job, each of which asks the same server."""
        self._transport = transport
        self._traffic = traffic
        self._interval = min(MAX_INTERVAL_SECONDS, max(1.0, workers / SAMPLES_PER_SECOND))
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._misses = 0
        self._before: Metrics | None = None
        self._before_at = 0.0

    async def run(self) -> None:
        """Go on until cancelled."""
        # Workers that begin together should not ask together.
        await self._sleep(self._interval * self._chance())
        while True:
            if self._traffic.in_flight:
                await self._sample()
            await self._sleep(self._pause())

    def _pause(self) -> float:
        doublings = min(16, max(0, self._misses + 1 - MISSES)) if self._before is None else 0
        return min(RARELY_SECONDS, self._interval * 2.0**doublings)

    async def _sample(self) -> None:
        metrics = metrics_of(await self._transport.get_each(METRICS_PATH, timeout=TIMEOUT_SECONDS))
        if metrics is not None:
            self._misses = 0
            self._traffic.loaded(self._load(metrics))
            return
        self._misses += 1
        if self._misses == MISSES:
            logger.info("the model server shows no load in %s: concurrency goes by the times of answers", METRICS_PATH)

    def _load(self, metrics: Metrics) -> ServerLoad:
        now = self._clock()
        latest = latest_answers(self._before, metrics, now - self._before_at)
        self._before, self._before_at = metrics, now
        return replace(metrics.load, latest=latest)


def metrics_of(results: Sequence[Answer | TransportError]) -> Metrics | None:
    """The numbers of all addresses together; None where one doesn't tell its own: a part would pass for the whole."""
    several = [
        read_metrics(result.body) if isinstance(result, Answer) and result.status == _HTTP_OK else None
        for result in results
    ]
    known = [one for one in several if one is not None]
    return together(known) if known and len(known) == len(several) else None
