"""The server's state: the settings in force, compiled, and everything that counts and waits."""

from stub.arrivals import ArrivalLog
from stub.capacity import Capacity
from stub.delays import parse_delay
from stub.flight import Flight
from stub.idle import IdleCloser
from stub.settings import Settings
from stub.stats import Stats
from stub.switches import parse_switches


class State:
    """All that a running server knows. `start` is what `reset` goes back to."""

    def __init__(self, start: Settings, log: ArrivalLog) -> None:
        self.start = start
        self.log = log
        self.stats = Stats()
        self.capacity = Capacity()
        self.flight = Flight()
        self.idle = IdleCloser()
        self.unread = 0
        """Connections that were reset before their request was read, since the settings changed."""
        self.apply(start)

    def apply(self, settings: Settings) -> None:
        """Put settings in force, for requests in flight too where that makes sense."""
        self.settings = settings
        self.delay = parse_delay(settings.delay)
        self.requests = parse_switches(settings.requests)
        self.unread = 0
        self.capacity.limit(settings.slots, settings.queue)
        self.flight.freeze(settings.freeze)

    def clear(self) -> None:
        """Forget what arrived and what was counted."""
        self.log.clear()
        self.stats.clear()
