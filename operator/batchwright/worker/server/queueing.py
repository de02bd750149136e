"""How much of the time of an answer is waiting, told from how long answers take. Pure.

The quick answers tell it best. Whoever waits in a queue waits before it is worked on, so the wait is in the quickest
answer as much as in the slowest; and unlike the mean, the quick ones hardly move when the lines become longer, when a
few of them are very long, or when a bigger batch makes all of them somewhat slower. The estimate is Vegas' (Brakmo and
Peterson, 1995), with a low quantile in place of the least round-trip time.
"""

from dataclasses import dataclass
from typing import Final

QUANTILE: Final = 0.1
FALL: Final = 0.5
RISE: Final = 0.01
"""The base follows a lower value fast, since only a queue makes answers slower, and a higher one hardly."""
USELESS_CUTS: Final = 5
"""So many times fewer requests in flight did not make answers quicker: it is the lines that have changed, not the
server's load."""
HELPED: Final = 0.95
"""A cut helped where it left no more than this part of the wait."""


@dataclass(frozen=True, slots=True)
class Round:
    """What some answers, all sent after one another, say together."""

    answers: int
    seconds: float
    """How long one took, on average."""
    queue: float
    """The part of that which was waiting, 0 to 1; below 0 where answers were quicker than ever."""


class Queueing:
    """Collects the times of answers, and compares each round of them with the best that was seen."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._base: float | None = None
        self._low = 0.0
        self._low_at_cut: float | None = None
        self._useless = 0

    @property
    def answers(self) -> int:
        """Answers in the present round."""
        return len(self._seconds)

    def answered(self, seconds: float) -> None:
        """An answer took so long."""
        self._seconds.append(seconds)

    def discard(self) -> None:
        """Begin the round anew."""
        self._seconds.clear()

    def end_round(self) -> Round:
        """Weigh the answers of the present round, of which there must be one at least, and begin the next."""
        self._seconds.sort()
        answers = len(self._seconds)
        mean = sum(self._seconds) / answers
        self._low = self._seconds[int(answers * QUANTILE)]
        self._seconds.clear()
        base = self._follow()
        return Round(answers, mean, (self._low - base) / mean if mean > 0 else 0.0)

    def _follow(self) -> float:
        if self._base is None:
            self._base = self._low
        if self._low_at_cut is not None:
            wait = self._low_at_cut - self._base
            self._useless = self._useless + 1 if self._low - self._base > HELPED * wait else 0
            self._low_at_cut = None
        if self._useless >= USELESS_CUTS:
            self._useless, self._base = 0, self._low
        self._base += (FALL if self._low < self._base else RISE) * (self._low - self._base)
        return self._base

    def cut(self) -> None:
        """Fewer requests are sent because of what the last round said: the next one tells whether it helped."""
        self._low_at_cut = self._low
        self._seconds.clear()
