"""Connections that break: whether the server broke with all of them, and how many lines may be sent to find out whose
fault it was. Pure.
"""

from dataclasses import dataclass
from typing import Final

LOSS_SECONDS: Final = 1.0
"""What breaks with no longer pauses than this, and no answer in between, breaks for one reason."""


@dataclass(slots=True)
class Loss:
    """Tries whose connections broke at one time."""

    at: float
    in_flight: int
    """Requests in flight as the first of them broke, itself included."""
    tries: int = 0

    @property
    def is_total(self) -> bool:
        """Whether it was the server that broke: with most of what was in flight, of which any may be the reason."""
        return self.tries > 1 and 2 * self.tries >= self.in_flight

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was in flight then is left to break."""
        return self.tries >= self.in_flight

    @property
    def is_of_one(self) -> bool:
        """Whether nothing else was in flight."""
        return self.in_flight == 1


def company(limit: int, losses: int) -> int:
    """Requests in flight, itself included, among which a line is sent that was in flight at so many total losses.

    They are halved with each, down to the line alone: a line that breaks the server is soon found, and the others get
    their answers without it.
    """
    return max(1, limit >> losses)
