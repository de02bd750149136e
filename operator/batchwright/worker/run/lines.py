"""Lines that were never sent, between the feeder that reads them and the senders."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from batchwright.worker.run.stopping import Stopping
from batchwright.worker.server.gate import Gate, Pass

L = TypeVar("L")


class LineQueue(Generic[L]):
    """Gives out lines in their order, each together with its turn at the gate.

    Who waits for a line waits for its turn at the same time. So nobody holds a line that can't be sent yet, and a
    sender that has just got an answer goes on with the next line at once, whoever else waits for one.
    """

    def __init__(self, size: int) -> None:
        """`size`: so many lines may wait."""
        self._size = size
        self._lines: deque[L] = deque()
        self._idle: list[asyncio.Future[tuple[L, Pass] | None]] = []
        self._feeder: asyncio.Future[None] | None = None
        self._ended = False
        self._stopped = False

    @property
    def left(self) -> bool:
        """Whether there are any lines that were never sent, or may be: not all has been read."""
        return not self._ended or bool(self._lines)

    @property
    def ready(self) -> bool:
        """Whether a line waits, and somebody to send it."""
        return bool(self._lines and self._idle)

    async def put(self, line: L, gate: Gate) -> None:
        """Add a line, once there is room.

        Raises:
            Stopping: nothing new is to be sent.
        """
        if len(self._lines) >= self._size:
            await self._has_room()
        if self._stopped:
            raise Stopping
        self._lines.append(line)
        if self._idle:
            gate.let_in()

    async def _has_room(self) -> None:
        """Wait until half of the lines are taken. To be woken for each would cost a turn of the event loop for each."""
        self._feeder = asyncio.get_running_loop().create_future()
        try:
            await self._feeder
        finally:
            self._feeder = None

    async def take(self, gate: Gate) -> tuple[L, Pass] | None:
        """The next line and its pass, once it may be sent; None: there will be none."""
        if self._lines and (admitted := gate.enter_at_once()) is not None:
            admitted.task = asyncio.current_task()
            return self._next(), admitted
        if self._stopped or not self.left:
            return None
        turn: asyncio.Future[tuple[L, Pass] | None] = asyncio.get_running_loop().create_future()
        self._idle.append(turn)  # the last one is the first to go on: no other is to be woken
        if self._lines:
            gate.let_in()
        try:
            taken = await turn
        except asyncio.CancelledError:
            self._leave(turn, gate)
            raise
        if taken is not None:
            taken[1].task = asyncio.current_task()
        return taken

    def _leave(self, turn: "asyncio.Future[tuple[L, Pass] | None]", gate: Gate) -> None:
        if turn in self._idle:
            self._idle.remove(turn)
        elif not turn.cancelled() and (taken := turn.result()) is not None:
            line, admitted = taken
            self._lines.appendleft(line)
            gate.gave_up(admitted)

    def let_in(self, admitted: Pass) -> None:
        """See `gate.Untried`."""
        self._idle.pop().set_result((self._next(), admitted))

    def _next(self) -> L:
        line = self._lines.popleft()
        if self._feeder is not None and 2 * len(self._lines) <= self._size:
            self._wake_feeder()
        if self._ended and not self._lines:
            self._dismiss()
        return line

    def end(self) -> None:
        """There will be no more lines."""
        self._ended = True
        if not self._lines:
            self._dismiss()

    def stop(self) -> list[L]:
        """Give out nothing more; gives the lines that nobody will take."""
        self._stopped = True
        rest = list(self._lines)
        self._lines.clear()
        self._dismiss()
        self._wake_feeder()
        return rest

    def _dismiss(self) -> None:
        idle, self._idle = self._idle, []
        for turn in idle:
            if not turn.done():
                turn.set_result(None)

    def _wake_feeder(self) -> None:
        if self._feeder is not None and not self._feeder.done():
            self._feeder.set_result(None)
