"""Sending one line until it has an outcome: the one owner of retries."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from batchwright.api.defaults import RequestPolicy
from batchwright.batchfile.result_line import is_success
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.stopping import Sleep
from batchwright.worker.server.concurrency import Signal
from batchwright.worker.server.gate import Gate, Pass
from batchwright.worker.server.models import Listing
from batchwright.worker.server.verdicts import Answered, Kind, Outcome, Retry, judge, record_tries
from batchwright.worker.server.watch import ModelList
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.protocol import Answer, Body, Transport

logger = logging.getLogger(__name__)

BACKOFF_BASE_SECONDS: Final = 0.5
CHARGED_BACKOFF_SECONDS: Final = 30.0
"""Longest pause after a try that counts."""
SPARED_BACKOFF_SECONDS: Final = 5.0
"""Longest pause after one that doesn't: the gate paces these, and the server should be full again soon after."""
MOST_SPARED_ALONE: Final = 3
"""Failures up to which the pause grows, to 2 s, while nobody is answered. A server that shuts down turns requests away
at once, and it takes seconds until that is told from others.
"""
SHORTEST_PAUSE_SECONDS: Final = 0.1
"""So long at least it is watched what becomes of other lines, before it is settled at whose expense a try failed."""
MAX_BROKEN_TRIES: Final = 10
"""A line whose connection breaks so often, though the server works for others in between, breaks it itself."""
MIN_BROKEN_ALONE: Final = 3
"""Where all others broke with it, so many of these tries must be its own, with nothing else in flight."""
MAX_MODEL_MISSES: Final = 2
"""A line that gets a 404 for the model so often from a server that lists it has its answer."""


class _Tries(Struct, gc=False):
    """What came of a line so far."""

    request_id: str
    count: int = 0
    charged: int = 0
    failures: int = 0
    """Tries that failed at the line's expense or at that of a failing server; the pause after them grows."""
    spared: int = 0
    """Tries that the server refused at nobody's expense; the pause after them grows, further if others are answered."""
    losses: int = 0
    """Tries whose connections broke with all others."""
    broken: int = 0
    """Tries that broke their connections themselves, as it seems."""
    broke_at: float | None = None
    """When the last of either ended."""
    broke: int = 0
    """How many tries are held against a line that failed for them."""
    denied_since: float | None = None
    """When the first of the tries began that got 403 or 404 for the model."""
    model_misses: int = 0

    def next_id(self) -> str:
        """An X-Request-Id of its own for each try, so that it can be found in the server's log."""
        self.count += 1
        return f"{self.request_id}-{self.count}"


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends bodies as they stand in the input, and tries again what may yet succeed.

    A try that ends is judged, charged to the line or not, and followed by a pause and the next wait at the gate.
    """

    transport: Transport
    policy: RequestPolicy
    api_key: ApiKey
    gate: Gate
    models: ModelList
    chance: Callable[[], float] = random.random
    sleep: Sleep = asyncio.sleep
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def send(
        self, path: str, body: Body, request_id: str, affinity: int | None = None, admitted: Pass | None = None
    ) -> Outcome:
        """The outcome of a line. `admitted`: what its first try was let in with; None: it is yet to be.

        Raises:
            Stopping: the worker leaves; the line has no outcome.
            StageFailed: the API key can't be read for the first time.
        """
        tries = _Tries(request_id)
        while True:
            admitted = admitted or await self.gate.enter(tries.losses)
            verdict = await self._try(path, body, tries, affinity, admitted)
            outcome = await self._settle(tries, admitted, verdict) if isinstance(verdict, Retry) else verdict
            if outcome is not None:
                if tries.count > 1:
                    self.gate.forget(request_id)
                    _log(outcome, tries)
                return record_tries(outcome, tries.count, tries.charged, tries.broke)
            admitted = None

    async def _try(
        self, path: str, body: Body, tries: _Tries, affinity: int | None, admitted: Pass
    ) -> Outcome | Retry | None:
        """One try; None where it says nothing of the line: the server is gone, or the key was an old one."""
        request_id = tries.next_id()
        try:
            key = self.api_key.headers()
            headers = {"X-Request-Id": request_id, **key}
            seconds = self.policy.timeout.total_seconds()
            result: Answer | TransportError = await self.transport.post(
                path, body, headers=headers, timeout=seconds, affinity=affinity
            )
        except TransportError as error:
            result = error
        except asyncio.CancelledError:
            self.gate.gave_up(admitted)
            if self.gate.forgives(admitted):
                return None
            raise
        except BaseException:
            self.gate.gave_up(admitted)
            raise
        verdict = judge(result, request_id, self.clock())
        if not isinstance(verdict, Retry):
            self.gate.answered(admitted, _signal(verdict))
            return verdict
        if verdict.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN) and self.api_key.reread() != key:
            self.gate.gave_up(admitted)
            tries.denied_since = None
            return None
        logger.debug("%s: %s", request_id, verdict.cause)
        self.gate.failed(admitted, verdict, line=tries.request_id, clean=tries.charged == 0)
        return verdict

    async def _settle(self, tries: _Tries, admitted: Pass, verdict: Retry) -> Outcome | None:
        """What a failed try comes to, once it is time for the next one: None for that."""
        match verdict.kind:
            case Kind.CHARGED:
                tries.failures += 1
                await self._pause_after_failure(tries, verdict)
                return await self._charge(tries, admitted, verdict)
            case Kind.FORBIDDEN:
                return await self._settle_forbidden(tries, admitted, verdict)
            case Kind.MODEL_MISSING:
                return await self._settle_model(tries, admitted, verdict)
        answers_others = verdict.kind is Kind.PACED or self.gate.others_answered_since(admitted.began)
        if answers_others or tries.spared < MOST_SPARED_ALONE:
            tries.spared += 1
        await self._pause(verdict, max(tries.spared, 1), SPARED_BACKOFF_SECONDS)
        if verdict.kind is Kind.BROKEN_OFF:
            return self._count_broken(tries, admitted, verdict)
        return None

    async def _charge(self, tries: _Tries, admitted: Pass, verdict: Retry) -> Outcome | None:
        if not await self.gate.charges(admitted):
            return None
        tries.charged += 1
        return verdict.last if tries.charged > self.policy.retries else None

    def _count_broken(self, tries: _Tries, admitted: Pass, verdict: Retry) -> Outcome | None:
        """Count a broken try if others were answered since the one before it, or if nothing else can be blamed."""
        before, tries.broke_at = tries.broke_at, admitted.ended
        if self.gate.broke_all(admitted):
            tries.losses += 1
            return None
        if before is None or self.gate.others_answered_since(before) or self.gate.broke_alone(admitted, before):
            tries.broken += 1
        if tries.losses + tries.broken < MAX_BROKEN_TRIES or tries.broken < MIN_BROKEN_ALONE:
            return None
        tries.broke = tries.losses + tries.broken
        return verdict.last

    async def _settle_forbidden(self, tries: _Tries, admitted: Pass, verdict: Retry) -> Outcome | None:
        """A 403 is the line's own where others are answered with the same key, else the server's state where it refuses
        the key for its models too.
        """
        self._note_denied(tries, admitted)
        listing = await self.models.ask_models()
        await self._pause_after_failure(tries, verdict)
        if self._is_denied_alone(tries):
            return verdict.last
        if listing in (Listing.REFUSED, Listing.UNREACHABLE):
            return None
        return await self._charge(tries, admitted, verdict)

    async def _settle_model(self, tries: _Tries, admitted: Pass, verdict: Retry) -> Outcome | None:
        """A 404 for the model is the server's state where it doesn't list it, or lists nothing and answers nobody."""
        self._note_denied(tries, admitted)
        listing = await self.models.ask_models()
        if listing in (Listing.LISTED, Listing.NO_LIST):
            tries.model_misses += 1
            if tries.model_misses >= MAX_MODEL_MISSES:
                return verdict.last
        else:
            tries.model_misses = 0
        await self._pause(verdict, tries.failures, SPARED_BACKOFF_SECONDS)
        if listing in (Listing.REFUSED, Listing.UNREACHABLE) and self._is_denied_alone(tries):
            return verdict.last
        return None

    def _note_denied(self, tries: _Tries, admitted: Pass) -> None:
        tries.failures += 1
        if tries.denied_since is None:
            tries.denied_since = admitted.began

    def _is_denied_alone(self, tries: _Tries) -> bool:
        """Whether others were sent after a line was first denied, with the same key, and answered.

        What was sent before may have come in while the key, or the model, was still good.
        """
        since = tries.denied_since
        return since is not None and self.gate.others_answered_since(since, sent_since=True)

    async def _pause_after_failure(self, tries: _Tries, verdict: Retry) -> None:
        await self._pause(verdict, tries.failures, CHARGED_BACKOFF_SECONDS)

    async def _pause(self, verdict: Retry, failures: int, longest: float) -> None:
        wait = max(backoff(failures, self.chance(), longest), SHORTEST_PAUSE_SECONDS)
        await self.sleep(wait if verdict.after is None else verdict.after + wait)


def backoff(failures: int, chance: float, longest: float) -> float:
    """Seconds to wait after so many failures: full jitter, so that many that failed together don't come back together.

    `chance` is evenly distributed over [0, 1).
    """
    return chance * min(longest, BACKOFF_BASE_SECONDS * 2.0 ** min(failures - 1, 64))


def _signal(outcome: Outcome) -> Signal:
    return Signal.SUCCESS if isinstance(outcome, Answered) and is_success(outcome.status) else Signal.OTHER


def _log(outcome: Outcome, tries: _Tries) -> None:
    if not isinstance(outcome, Answered):
        cause = outcome.code
    elif is_success(outcome.status):
        return
    else:
        cause = str(outcome.status)
    logger.info("%s failed: %s, tried %d times, %d counted", tries.request_id, cause, tries.count, tries.charged)
