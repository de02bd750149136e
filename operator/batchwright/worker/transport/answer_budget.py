"""A bound on the bytes of all answers that are being received, whatever the number of requests.

An answer whose size its headers tell takes its bytes before its body is read; until then the body waits in the socket,
and so with the server. Any other answer takes them piece by piece. That alone would deadlock, with every answer half
received and none able to end. So answers stand in a line in the order in which they first took something, and the
oldest may always go on. All others together stay within the limit, hence what is held is never more than the limit and
one answer, and whoever waits is the oldest one day.

That day must not be far: an answer that stops in its midst would keep the others waiting until its own deadline. So it
is given up when nothing comes of it for some seconds in which others wait.
"""

import asyncio
from types import TracebackType
from typing import Final, Protocol, Self

from batchwright.worker.transport.errors import ConnectionLost

DEFAULT_ANSWER_BUDGET_BYTES: Final = 16 * 1024 * 1024
STALL_SECONDS: Final = 10.0
"""An answer of which nothing comes for so long, while others wait, is given up."""
LOOKS: Final = 4
"""Within these seconds. After a moment in which the whole process stood still, one look may find nothing new."""


class Arriving(Protocol):
    """What is needed of aiohttp's StreamReader to see whether an answer still comes, and to end it."""

    @property
    def total_bytes(self) -> int:
        """Bytes that have come."""
        ...

    def set_exception(self, exc: BaseException) -> None:
        """Raise this at the reader."""
        ...


class AnswerBudget:
    """Bytes that answers share, each through a `Holding`. For one event loop."""

    def __init__(self, limit: int = DEFAULT_ANSWER_BUDGET_BYTES, stall_seconds: float = STALL_SECONDS) -> None:
        """`limit` is in bytes. A single answer may be larger."""
        self._limit = limit
        self._pause = stall_seconds / LOOKS
        self._look: asyncio.TimerHandle | None = None
        self._held = 0
        self._by_age: dict[Holding, None] = {}

    @property
    def held(self) -> int:
        """Bytes that all answers hold by now."""
        return self._held

    def holding(self, answer: Arriving) -> "Holding":
        """What one answer will hold; nothing at first."""
        return Holding(self, answer)

    def take(self, holding: "Holding", size: int) -> bool:
        """Take bytes for a holding, unless it must wait: for room, or for an older one that waits."""
        self._by_age.setdefault(holding)
        if not self._allows(holding, size) or self._older_one_waits(holding):
            return False
        self._grant(holding, size)
        return True

    def give_back(self, holding: "Holding") -> None:
        """Give back all that a holding took, and let others have it. It loses its place in the line."""
        self._by_age.pop(holding, None)
        self._held -= holding.bytes
        holding.bytes = 0
        for waiting in self._by_age:
            if not waiting.waits:
                continue
            if not self._allows(waiting, waiting.wanted):
                return  # younger ones that would fit must not starve it
            self._grant(waiting, waiting.wanted)
            waiting.granted()

    def watch(self) -> None:
        """Somebody waits: look for answers that have stalled, until nobody does."""
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(self._pause, self._look_for_stalled)

    def _look_for_stalled(self) -> None:
        self._look = None
        if any(holding.waits for holding in self._by_age):
            for holding in self._by_age:
                holding.look()
            self.watch()

    def _allows(self, holding: "Holding", size: int) -> bool:
        return self._held + size <= self._limit or holding is next(iter(self._by_age))

    def _older_one_waits(self, holding: "Holding") -> bool:
        for older in self._by_age:
            if older is holding:
                break
            if older.waits:
                return True
        return False

    def _grant(self, holding: "Holding", size: int) -> None:
        holding.bytes += size
        self._held += size


class Holding:
    """What one answer holds. A context, at whose end all of it is given back."""

    __slots__ = ("_answer", "_budget", "_idle_looks", "_seen", "_turn", "bytes", "wanted")

    def __init__(self, budget: AnswerBudget, answer: Arriving) -> None:
        self._budget = budget
        self._answer = answer
        self._seen = self._idle_looks = 0
        self._turn: asyncio.Future[None] | None = None
        self.bytes = 0
        self.wanted = 0
        """Bytes that it waits for, while it does."""

    @property
    def waits(self) -> bool:
        """Whether its turn is yet to come."""
        return self._turn is not None and not self._turn.done()

    def take_at_once(self, size: int) -> bool:
        """Take bytes unless that means to wait; tells whether it did."""
        return self._budget.take(self, size)

    async def wait(self, size: int) -> None:
        """Wait for bytes that `take_at_once` didn't give. Who is cancelled in it must leave the context."""
        self.wanted, self._turn = size, asyncio.get_running_loop().create_future()
        self._budget.watch()
        await self._turn

    def look(self) -> None:
        """Give the answer up if nothing came of it for some looks. Nothing comes of one that waits itself."""
        came = self._answer.total_bytes
        self._idle_looks = 0 if self.waits or came != self._seen else self._idle_looks + 1
        self._seen = came
        if self._idle_looks == LOOKS:
            self._answer.set_exception(ConnectionLost("the answer stopped in its midst and kept others waiting"))

    def granted(self) -> None:
        """End the wait: the bytes are taken."""
        assert self._turn is not None
        self._turn.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._budget.give_back(self)
