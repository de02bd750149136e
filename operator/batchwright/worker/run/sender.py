"""Sending one request until it has an outcome: the one owner of retries."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from batchwright.api.defaults import RequestPolicy
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.attempts import Outcome, Retry, backoff, judge, record_tries
from batchwright.worker.run.stopping import Sleep
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.protocol import Answer, Transport


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends bodies as they stand in the input, and tries again what may yet succeed."""

    transport: Transport
    policy: RequestPolicy
    api_key: ApiKey
    chance: Callable[[], float] = random.random
    sleep: Sleep = asyncio.sleep
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def send(self, path: str, body: bytes, request_id: str) -> Outcome:
        """The outcome of a request.

        Each try sends an X-Request-Id of its own, so that it can be found in the server's log.

        Raises:
            Stopping: `sleep` says that the worker leaves.
        """
        timeout = self.policy.timeout.total_seconds()
        tries = 0
        while True:
            tries += 1
            sent_id = f"{request_id}-{tries}"
            verdict = judge(await self._try(path, body, sent_id, timeout), sent_id, self.clock())
            if not isinstance(verdict, Retry):
                return record_tries(verdict, tries)
            if tries > self.policy.retries:
                return record_tries(verdict.last, tries)
            wait = backoff(tries, self.chance())
            await self.sleep(wait if verdict.after is None else verdict.after + wait)

    async def _try(self, path: str, body: bytes, request_id: str, seconds: float) -> Answer | TransportError:
        headers = {"X-Request-Id": request_id, **self.api_key.headers()}
        try:
            return await self.transport.post(path, body, headers=headers, timeout=seconds)
        except TransportError as error:
            return error
