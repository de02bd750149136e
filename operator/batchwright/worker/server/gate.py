"""The gate that every try passes: as many requests in flight as the limit allows, and none to a server that is away."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from batchwright.api.conditions import Reason
from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import Limit, ServerLoad, Signal
from batchwright.worker.server.findings import Cause, Failure
from batchwright.worker.server.losses import LOSS_SECONDS, Loss, company
from batchwright.worker.server.verdicts import Kind, Retry

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

    __slots__ = ("began", "dropped", "ended", "failure", "loss", "task", "trial")

    failure: Failure
    """Set once it has failed."""
    loss: Loss
    """Set where its connection broke."""

    def __init__(self, began: float, trial: bool) -> None:
        self.began = began
        self.ended = math.inf
        self.trial = trial
        self.dropped = False
        """Whether the watch ended it, since the server is gone."""
        self.task: asyncio.Task[object] | None = None


class Untried(Protocol):
    """Lines that were never sent."""

    @property
    def ready(self) -> bool:
        """Whether one of them waits, and somebody to send it."""
        ...

    def let_in(self, admitted: Pass) -> None:
        """Let the next one in. To be called only while it is ready."""
        ...


class _NoLines:
    ready = False

    def let_in(self, admitted: Pass) -> None:
        raise AssertionError("no line is ready")


class Gate:
    """Lets tries through: lines that are tried again in the order in which they come, by turns with those that were
    never sent. So neither keep the other waiting, whatever becomes of them.

    With a healthy server nothing happens here but counting.
    """

    def __init__(
        self,
        availability: Availability,
        limit: Limit,
        untried: Untried | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`untried` says that it has become ready by a call of `let_in`; None: every line comes by `enter`."""
        self.availability = availability
        self.limit = limit
        self.in_flight = 0
        self.clock = clock
        self.outage: Outage | None = None
        """What is told of a server that is away."""
        self.attention = asyncio.Event()
        """Set when the watch must look again: something has failed."""
        self._open = True
        self._free = True
        """Open, and nobody in flight who may have no company but a small one."""
        self._stopped = False
        self._waiting: deque[tuple[asyncio.Future[Pass], int]] = deque()
        """Who waits, and at how many total losses each was in flight."""
        self._untried: Untried = untried or _NoLines()
        self._untried_is_next = False
        self._unsettled: list[asyncio.Future[None]] = []
        self._suspects: dict[Pass, int] = {}
        """Tries that may be what breaks the server, and how many may be in flight with each."""
        self._loss = Loss(-math.inf, 0)
        self._watched: set[asyncio.Future[Any]] = set()
        self._passes: dict[Pass, None] = {}
        """What is in flight, the oldest first."""
        self._left_at = 0.0
        self._away_since = 0.0
        self._lost_all = False
        """Whether the outage took what was in flight."""

    async def enter(self, losses: int = 0) -> Pass:
        """Wait for one's turn. Every Pass must come back, by one of the methods below.

        Args:
            losses: at how many losses of all that was in flight the line was among it.

        Raises:
            Stopping: the worker leaves.
        """
        admitted = None if losses else self.enter_at_once()
        if admitted is None:
            admitted = await self._turn(losses)
        admitted.task = asyncio.current_task()
        return admitted

    def enter_at_once(self) -> Pass | None:
        """Come in without waiting, where nobody else waits and there is room; else None."""
        if self._free and not self._waiting and self.in_flight < self.limit.limit:
            return self._admit(trial=False)
        return None

    async def _turn(self, losses: int) -> Pass:
        if self._stopped:
            raise Stopping
        future: asyncio.Future[Pass] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, losses))
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
        admitted = Pass(now, trial)
        self._passes[admitted] = None
        return admitted

    def answered(self, admitted: Pass, signal: Signal) -> None:
        """A try got a real answer."""
        now = self.clock()
        self.availability.answered(now, admitted.began)
        self._leave(admitted, now, signal)
        if self._unsettled:
            self._settle_all()

    def failed(self, admitted: Pass, verdict: Retry, *, line: str, clean: bool) -> None:
        """A try is to be done again. `clean`: its line has no charge yet."""
        now = self.clock()
        admitted.failure = Failure(
            verdict.kind, line, verdict.cause, admitted.began, clean, verdict.heard, verdict.after
        )
        self.availability.failed(now, admitted.failure)
        if verdict.kind is Kind.BROKEN_OFF:
            admitted.loss = self._lose(now)
        self.attention.set()
        self._leave(admitted, now, Signal.OVERLOAD if verdict.overload else Signal.OTHER)

    def _lose(self, now: float) -> Loss:
        known = self._loss
        over = known.is_whole or now - known.at > LOSS_SECONDS
        if over or self.availability.answered_since(known.at):
            self._loss = Loss(now, self.in_flight)
        self._loss.at = now
        self._loss.tries += 1
        return self._loss

    def gave_up(self, admitted: Pass) -> None:
        """A try was ended from outside; nothing is known of it."""
        self._leave(admitted, self.clock(), None)

    def _leave(self, admitted: Pass, now: float, signal: Signal | None) -> None:
        if signal is not None:
            self.limit.finished(now, now - admitted.began, self.in_flight, signal)
        admitted.ended = now
        self.in_flight -= 1
        self._passes.pop(admitted, None)
        if admitted.trial:
            self.availability.trial_ended(now)
            self.attention.set()
        if signal is not Signal.SUCCESS or not self._free:
            self._suspects.pop(admitted, None)
            self.update()
            if self._unsettled:
                self._settle_all()
        elif self._waiting or self.in_flight + 1 < self.limit.limit:
            self.let_in()  # where there is but the place of the one who leaves, he comes back for it with the next line

    async def charges(self, admitted: Pass) -> bool:
        """Whether the failure of a try counts against its line: see Availability.settles. Waits until that can be told.

        Raises:
            Stopping: the worker leaves before.
        """
        while (charged := self._settle(admitted)) is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unsettled.append(future)
            await self.unless_stopped(future)
        return charged

    def _settle(self, admitted: Pass) -> bool | None:
        oldest = next(iter(self._passes), None)
        began = oldest.began if oldest else math.inf
        charged = self.availability.settles(self.clock(), admitted.failure, ended=admitted.ended, oldest=began)
        if charged is not True:
            self.attention.set()
            self.update()
        return charged

    def _settle_all(self) -> None:
        """Let all look again that wait to be told at whose expense they failed."""
        futures, self._unsettled = self._unsettled, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    def probed(self, *, drop: bool, trials: bool) -> None:
        """A probe has ended. `drop`: what is in flight is lost; `trials`: those too."""
        self.update()
        if drop:
            self.drop_in_flight(trials=trials)
        self._settle_all()

    def forget(self, line: str) -> None:
        """A line that had failed before has its outcome."""
        self.availability.forget(line)

    def broke_all(self, admitted: Pass) -> bool:
        """Whether a try's connection broke with all others. To be asked late, after the pause that follows."""
        return admitted.loss.is_total

    def broke_alone(self, admitted: Pass, since: float) -> bool:
        """Whether a try broke its connection with nothing else in flight, though the server worked after `since`.

        Trials of a server that answers nobody tell nothing, as long as there are others to try.
        """
        if not admitted.loss.is_of_one or not self.availability.worked_since(since):
            return False
        away = self.availability.away
        return away is None or away.cause is not Cause.ERRORS or not self.availability.has_untried()

    def others_answered_since(self, moment: float, *, sent_since: bool = False) -> bool:
        """Whether other lines were answered after a moment, and, with `sent_since`, sent after it too."""
        known = self.availability
        return known.answered_sent_since(moment) if sent_since else known.answered_since(moment)

    def loaded(self, load: ServerLoad) -> None:
        """The server's metrics have been read."""
        self.limit.loaded(self.clock(), load, self.in_flight)
        self.let_in()

    def update(self) -> None:
        """Open or close as the server is, and let in who may come in. To be called after any event but an answer."""
        now = self.clock()
        self._note_away(now)
        self._open = not self._stopped and self.availability.is_open(now)
        self._free = self._open and not self._suspects
        self.let_in()
        if self._unsettled and self.availability.away is not None:
            self._settle_all()

    def let_in(self) -> None:
        """Let in as many as may come in."""
        while self._waiting or self._untried.ready:
            untried = self._untried.ready and (self._untried_is_next or not self._waiting)
            losses = 0 if untried else self._waiting[0][1]
            trial = self._is_trial(losses)
            if trial is None:
                return
            if untried:
                self._untried.let_in(self._admit(trial=trial))
            else:
                self._let_in_again(*self._waiting.popleft(), trial=trial)
            self._untried_is_next = not untried

    def _let_in_again(self, future: asyncio.Future[Pass], losses: int, *, trial: bool) -> None:
        if future.done():
            return
        admitted = self._admit(trial=trial)
        if losses:
            self._suspects[admitted] = company(self.limit.limit, losses)
            self._free = False
        future.set_result(admitted)

    def _is_trial(self, losses: int) -> bool | None:
        """Whether who comes next, after so many losses, does so for a trial; None: nobody may."""
        if self._open:
            return False if self.in_flight < self._room_after(losses) else None
        wanted = not self._stopped and self.availability.wants_trial(self.clock())
        return True if wanted else None

    def _room_after(self, losses: int) -> int:
        limit = self.limit.limit
        if losses or self._suspects:
            return min(company(limit, losses), *self._suspects.values(), limit)
        return limit

    def _note_away(self, now: float) -> None:
        away = self.availability.away
        if away is None and self.outage is not None:
            seconds = now - self._left_at
            self.outage = None
            logger.info("the model server is back after %.1f s", seconds)
            if self._lost_all and seconds >= OUTAGE_SECONDS:
                self.limit.restart(now)
            self._lost_all = False
        elif away is not None and (away.cause is not Cause.ERRORS or now - away.since >= ERRORS_SECONDS):
            if self.outage is None:
                self._left_at = away.since
                self._lost_all = self._loss.is_total and self._loss.at >= away.since - LOSS_SECONDS
                logger.warning("the model server is away (%s): %s", away.reason, away.message)
            self._lost_all |= away.cause is Cause.PROBE
            if self.outage is None or self._away_since != away.since:
                self._away_since = away.since
                since = datetime.now(UTC) - timedelta(seconds=now - away.since)
            else:
                since = self.outage.since
            self.outage = Outage(away.reason, away.message, since)

    def drop_in_flight(self, *, trials: bool = True) -> None:
        """End every try that is in flight, trials too or not: the server is gone, and nothing will come of them.

        One whose answer has just come in is left to take it: it does so within this turn of the event loop or the next.
        """
        lost = [admitted for admitted in self._passes if trials or not admitted.trial]
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._drop, lost)

    def _drop(self, lost: list[Pass]) -> None:
        for admitted in lost:
            if admitted in self._passes and admitted.task is not None and not admitted.dropped:
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
        self._open = self._free = False
        for future in (*(future for future, _ in self._waiting), *self._watched):
            if not future.done():
                future.set_exception(Stopping())
        self._waiting.clear()
        self.attention.set()
