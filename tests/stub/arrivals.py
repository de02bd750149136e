"""Which requests arrived, how often, and which were answered: in bounded memory."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from stub.journal import Journal


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request that reached an inference endpoint with a readable body."""

    time: float
    """Unix seconds."""
    key: str
    request_id: str | None
    """The header X-Request-Id as the client sent it."""
    endpoint: str
    priority: int
    attempt: int
    """How many arrivals of the same key came before it."""
    in_flight: int
    """Requests in flight, this one included."""


class ArrivalLog:
    """Counts per key, for so many keys at most, and the last arrivals.

    Past `max_keys` a new key is no longer counted (its attempts all look like the first);
    `uncounted` says how many arrivals that concerned.
    With a `journal` the counts begin with what earlier servers wrote into it.
    """

    def __init__(self, *, max_keys: int = 200_000, last: int = 10_000, journal: Journal | None = None) -> None:
        self._max_keys = max_keys
        self._last: deque[Arrival] = deque(maxlen=last)
        self._arrived: dict[str, int] = {}
        self._answered: dict[str, int] = {}
        self._turned_away: dict[str, int] = {}
        self.total = 0
        self.uncounted = 0
        self._journal = journal
        counts = {"arrived": self._count, "answered": self._count_answer, "turned_away": self._count_turned_away}
        for event, key in journal.replay() if journal else ():
            counts[event](key)

    def attempts(self, key: str) -> int:
        """Return how many arrivals of this key there were."""
        return self._arrived.get(key, 0)

    def arrive(self, arrival: Arrival) -> None:
        if self._journal:
            self._journal.note(("arrived", arrival.key))
        self._last.append(arrival)
        self._count(arrival.key)

    def answer(self, key: str) -> None:
        """Note that the request got a whole and sound answer of 200."""
        if self._journal:
            self._journal.note(("answered", key))
        self._count_answer(key)

    def turn_away(self, key: str) -> None:
        """Note that a request which had arrived was given up at once, without any work: the server is shutting down."""
        if self._journal:
            self._journal.note(("turned_away", key))
        self._count_turned_away(key)

    def _count(self, key: str) -> None:
        self.total += 1
        if key in self._arrived:
            self._arrived[key] += 1
        elif len(self._arrived) < self._max_keys:
            self._arrived[key] = 1
        else:
            self.uncounted += 1

    def _count_answer(self, key: str) -> None:
        if key in self._arrived:
            self._answered[key] = self._answered.get(key, 0) + 1

    def _count_turned_away(self, key: str) -> None:
        if key in self._arrived:
            self._turned_away[key] = self._turned_away.get(key, 0) + 1

    def clear(self) -> None:
        self._last.clear()
        self._arrived.clear()
        self._answered.clear()
        self._turned_away.clear()
        self.total = self.uncounted = 0
        if self._journal:
            self._journal.clear()

    def snapshot(self, *, last: int) -> dict[str, Any]:
        """Return the log as JSON values, with the latest `last` arrivals, oldest first."""
        latest = list(self._last)[-last:] if last else []
        return {
            "total": self.total,
            "distinct": len(self._arrived),
            "uncounted": self.uncounted,
            "kept": self._journal is not None and self._journal.whole,
            "arrived": dict(self._arrived),
            "answered": dict(self._answered),
            "turned_away": dict(self._turned_away),
            "last": latest,
        }
