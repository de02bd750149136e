"""Orders in which a shard's lines might be sent, to compare the worker's with."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright.worker.run.shard_order import Turn

Order = Callable[[Sequence[bytes]], "list[Turn]"]

WORKERS_OWN = "both, as the worker does"


def _turns(places: Sequence[int]) -> "list[Turn]":
    from batchwright.worker.run.shard_order import Turn

    return [Turn(place, None) for place in places]


def _read(body: bytes) -> dict[str, Any]:
    import msgspec

    return msgspec.json.decode(body, type=dict)


def _as_in_the_file(bodies: Sequence[bytes]) -> "list[Turn]":
    return _turns(range(len(bodies)))


def _by_prefix_alone(bodies: Sequence[bytes]) -> "list[Turn]":
    return _turns(sorted(range(len(bodies)), key=lambda place: str(_read(bodies[place])["messages"])))


def _by_length_alone(bodies: Sequence[bytes]) -> "list[Turn]":
    return _turns(sorted(range(len(bodies)), key=lambda place: -int(_read(bodies[place])["max_tokens"])))


ORDERS: dict[str, Order | None] = {
    "as in the file": _as_in_the_file,
    "by length alone": _by_length_alone,
    "by prefix alone": _by_prefix_alone,
    WORKERS_OWN: None,
}
"""None: what the worker has."""


def use(name: str) -> None:
    """Let the workers of this process send in the order of this name."""
    from batchwright.worker.run import shard_input

    if order := ORDERS[name]:
        shard_input.sending_order = order
