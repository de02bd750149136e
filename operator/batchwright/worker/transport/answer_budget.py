"""A bound on the bytes of all answers that are being received, whatever the number of requests.

An answer whose size its headers tell takes its bytes before its body is read; until then the body waits in the socket,
and so with the server. Any other answer takes them piece by piece. That alone would deadlock, with every answer half
received and none able to end. So answers stand in a line in the order in which they first took something, and the
oldest may always go on. All others together stay within the limit, hence what is held is never more than the limit and
one answer, and whoever waits is the oldest one day.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

DEFAULT_ANSWER_BUDGET_BYTES: Final = 16 * 1024 * 1024


class AnswerBudget:
    """Bytes that answers share, each through a `Holding`. For one event loop."""

    def __init__(self, limit: int = DEFAULT_ANSWER_BUDGET_BYTES) -> None:
        """`limit` is in bytes. A single answer may be larger."""
        self._limit = limit
        self._held = 0
        self._by_age: dict[Holding, None] = {}

    @property
    def held(self) -> int:
        """Bytes that all answers hold by now."""
        return self._held

    def holding(self) -> "Holding":
        """What one answer will hold; nothing at first."""
        return Holding(self)

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

    __slots__ = ("_budget", "_turn", "bytes", "wanted")

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
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

    async def take(self, size: int) -> None:
        """Take bytes, and wait for them if need be. Who is cancelled in it must leave the context."""
        if not self.take_at_once(size):
            self.wanted, self._turn = size, asyncio.get_running_loop().create_future()
            await self._turn

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
