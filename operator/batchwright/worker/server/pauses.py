"""Pauses between looks at a server that is away. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Pauses:
    """Pauses that double from the first to the longest, shortened by chance, so that workers don't come at once.

    All are in seconds; `chance` is evenly distributed over [0, 1).
    """

    first: float
    longest: float
    chance: Callable[[], float]
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.first

    def restart(self) -> None:
        """Begin with the first pause again."""
        self._next = self.first

    def take(self) -> float:
        """The next pause, in seconds."""
        pause = self._next
        self._next = min(pause * 2, self.longest)
        return pause * (0.5 + self.chance() / 2)
