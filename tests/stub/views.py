"""What /stub answers, as typed values for tests."""

from msgspec import Struct


class ArrivalView(Struct, frozen=True):
    """See stub.arrivals.Arrival."""

    time: float
    key: str
    request_id: str | None
    endpoint: str
    priority: int
    attempt: int
    in_flight: int


class ArrivalsView(Struct, frozen=True):
    """Which requests arrived: `arrived` and `answered` count them by key."""

    total: int
    distinct: int
    uncounted: int
    kept: bool
    arrived: dict[str, int]
    answered: dict[str, int]
    turned_away: dict[str, int]
    last: list[ArrivalView]


class StatsView(Struct, frozen=True):
    """See stub.stats.Stats."""

    total: int
    in_flight: int
    max_in_flight: int
    running: int
    waiting: int
    by_status: dict[int, int]
    by_fault: dict[str, int]
    other: dict[str, int]
    disconnected: int
    connections: int
    open_connections: int
    prompt_tokens: int
    cached_tokens: int
    generation_tokens: int
