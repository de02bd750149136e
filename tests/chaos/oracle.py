"""In which state a BatchJob may end, and which lines it must have answered then."""

from collections.abc import Collection
from dataclasses import dataclass

from chaos.script import Action, Kind, Script

UNDONE_CODES = {"cancelled": "batch_cancelled", "expired": "batch_expired", "failed": "batch_failed"}
"""The code of a line that has no outcome of its own, by the phase in which the BatchJob ended."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How a BatchJob may end."""

    phases: frozenset[str]
    reasons: frozenset[str] = frozenset()
    """Of the condition Failed, where the phase is `failed`."""


def expected(script: Script, done: Collection[Action]) -> Expected:
    """How a BatchJob may end after those of its steps that were done in time.

    A stop may come when everything is published already; then, and only then, the BatchJob is completed.
    """
    match script.kind:
        case Kind.CANCEL if Action.CANCEL in done:
            return Expected(frozenset({"cancelled", "completed"}))
        case Kind.EXPIRY:
            return Expected(frozenset({"expired", "completed"}))
        case Kind.FAILURES:
            # However late it is seen: the limit holds for the totals too.
            return Expected(frozenset({"failed"}), frozenset({"TooManyFailures"}))
        case Kind.INVALID:
            return Expected(frozenset({"failed"}), frozenset({"InvalidInput"}))
        case _:
            return Expected(frozenset({"completed"}))
