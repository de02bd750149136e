"""The gate that every try passes: as many requests in flight as the limit allows, and none to a server that is away."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from batchwright.api.conditions import Reason
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.availability import Availability, Cause, Failure
from batchwright.worker.server.concurrency import Limit, ServerLoad, Signal
from batchwright.worker.server.verdicts import Retry

logger = logging.getLogger(__name__)

ERRORS_SECONDS: Final = 1.0
"""A few lines that fail while others take their time look like an outage; so long passes before it is called one."""
OUTAGE_SECONDS: Final = 2.0
"""After so long without the server what was known of its load no longer holds."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Outage:
    """A server that is away, for people."""

    reason: Reason
    message: str
    since: datetime


class Pass:
    """One try that was let through."""

    __slots__ = ("began", "dropped", "ended", "failure", "task", "trial")

    def __init__(self, began: float, trial: bool) -> None:
        self.began = began
        self.ended = math.inf
        self.failure: Failure | None = None
        self.trial = trial
        self.dropped = False
        """Whether the watch ended it, since the server is gone."""
        self.task: asyncio.Task[object] | None = None


class Gate:
    """Lets tries through, in the order in which they come.

    With a healthy server nobody waits here, and nothing happens but counting.
    """

    def __init__(
        self, availability: Availability, limit: Limit, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.availability = availability
        self.limit = limit
        self.in_flight = 0
        self.clock = clock
        self.outage: Outage | None = None
        """What is told of a server that is away."""
        self.has_untried: Callable[[], bool] = lambda: False
        """Whether there are lines that have not been sent yet; whoever has them sets it."""
        self.attention = asyncio.Event()
        """Set when the watch must look again: something has failed."""
        self._open = True
        self._stopped = False
        self._waiting: deque[asyncio.Future[Pass]] = deque()
        self._watched: set[asyncio.Future[Any]] = set()
        self._passes: set[Pass] = set()
        self._left_at = 0.0

    async def enter(self) -> Pass:
        """Wait for one's turn. Every Pass must come back, by one of the methods below.

        Raises:
            Stopping: the worker leaves.
        """
        if self._open and not self._waiting and self.in_flight < self.limit.limit:
            admitted = self._admit(trial=False)
        else:
            admitted = await self._turn()
        admitted.task = asyncio.current_task()
        self._passes.add(admitted)
        return admitted

    async def _turn(self) -> Pass:
        if self._stopped:
            raise Stopping
        future: asyncio.Future[Pass] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.let_in()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.gave_up(future.result())
            raise

    def _admit(self, *, trial: bool) -> Pass:
        now = self.clock()
        self.in_flight += 1
        if self.in_flight == 1:
            self.availability.sent(now)
        if trial:
            self.availability.trial_began()
        return Pass(now, trial)

    def answered(self, admitted: Pass, signal: Signal) -> None:
        """A try got a real answer."""
        now = self.clock()
        self.availability.answered(now, admitted.began)
        self._leave(admitted, now, signal)

    def failed(self, admitted: Pass, verdict: Retry, *, line: str, clean: bool) -> None:
        """A try is to be done again. `clean`: its line has no charge yet."""
        now = self.clock()
        admitted.failure = Failure(
            verdict.kind, line, verdict.cause, admitted.began, clean, verdict.heard, verdict.after
        )
        self.availability.failed(now, admitted.failure)
        self.attention.set()
        self._leave(admitted, now, Signal.OVERLOAD if verdict.overload else Signal.OTHER)

    def gave_up(self, admitted: Pass) -> None:
        """A try was ended from outside; nothing is known of it."""
        self._leave(admitted, self.clock(), None)

    def _leave(self, admitted: Pass, now: float, signal: Signal | None) -> None:
        if signal is not None:
            self.limit.finished(now, now - admitted.began, self.in_flight, signal)
        admitted.ended = now
        self.in_flight -= 1
        self._passes.discard(admitted)
        if admitted.trial:
            self.availability.trial_ended(now)
            self.attention.set()
        if signal is not Signal.SUCCESS or not self._open:
            self.update()
        elif self._waiting:
            self.let_in()

    def charges(self, admitted: Pass) -> bool:
        """Whether the failure of a try counts against its line: see Availability.charges."""
        assert admitted.failure is not None
        charged = self.availability.charges(
            self.clock(),
            admitted.failure,
            ended=admitted.ended,
            in_flight=self.in_flight,
            untried=self.has_untried(),
        )
        self.attention.set()
        self.update()
        return charged

    def others_answered_during(self, admitted: Pass) -> bool:
        """Whether other lines were answered since a try began."""
        return self.availability.answered_since(admitted.began)

    def others_answered_after(self, admitted: Pass) -> bool:
        """Whether other lines were answered since a try ended."""
        return self.availability.answered_since(admitted.ended)

    def is_out_of_patience(self) -> bool:
        """See Availability.is_out_of_patience."""
        return self.availability.is_out_of_patience(self.clock())

    def loaded(self, load: ServerLoad) -> None:
        """The server's metrics have been read."""
        self.limit.loaded(self.clock(), load)
        self.let_in()

    def update(self) -> None:
        """Open or close as the server is, and let in who may come in. To be called after any event but an answer."""
        now = self.clock()
        self._note_away(now)
        self._open = not self._stopped and self.availability.is_open(now)
        self.let_in()

    def let_in(self) -> None:
        """Let in as many as may come in."""
        while self._waiting and (trial := self._next_is_trial()) is not None:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(self._admit(trial=trial))

    def _next_is_trial(self) -> bool | None:
        """Whether who comes next does so for a trial; None: nobody may."""
        if self._open:
            return False if self.in_flight < self.limit.limit else None
        wanted = not self._stopped and self.availability.wants_trial(self.clock())
        return True if wanted else None

    def _note_away(self, now: float) -> None:
        away = self.availability.away
        if away is None and self.outage is not None:
            seconds = now - self._left_at
            self.outage = None
            logger.info("the model server is back after %.1f s", seconds)
            if seconds >= OUTAGE_SECONDS:
                self.limit.restart(now)
        elif away is not None and (away.cause is not Cause.ERRORS or now - away.since >= ERRORS_SECONDS):
            if self.outage is None:
                self._left_at = away.since
                since = datetime.now(UTC) - timedelta(seconds=now - away.since)
                logger.warning("the model server is away (%s): %s", away.reason, away.message)
            else:
                since = self.outage.since
            self.outage = Outage(away.reason, away.message, since)

    def drop_in_flight(self) -> None:
        """End every try that is in flight: the server is gone, and nothing will come of them."""
        for admitted in self._passes:
            if admitted.task is not None and not admitted.dropped:
                admitted.dropped = True
                admitted.task.cancel()

    def forgives(self, admitted: Pass) -> bool:
        """Whether a cancellation was the drop of this try, which its task survives, and nothing else."""
        return admitted.dropped and admitted.task is not None and admitted.task.uncancel() == 0

    async def unless_stopped(self, future: asyncio.Future[R]) -> R:
        """Wait for a result, and no longer than the worker stays.

        Raises:
            Stopping: the worker leaves.
        """
        if self._stopped:
            raise Stopping
        self._watched.add(future)
        try:
            return await future
        finally:
            self._watched.discard(future)

    def stop(self) -> None:
        """Let nobody in any more: who waits gets Stopping."""
        self._stopped = True
        self._open = False
        for future in (*self._waiting, *self._watched):
            if not future.done():
                future.set_exception(Stopping())
        self._waiting.clear()
        self.attention.set()
