"""A `coordination.k8s.io/v1` Lease, as far as the election of a leader reads and writes it.

The times in it are for people: nobody compares them with a clock of their own, since clocks of two nodes may differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds it, and for how long others have to leave it alone after each change."""

    holder: str
    """Empty where nobody holds it."""
    duration: float = 0.0
    """Seconds; 0 where it doesn't say."""
    transitions: int = 0
    """How often it went to another holder."""
    acquired_at: str = ""
    """When the holder took it, as written."""
    version: str = ""
    """Changes with every write; empty for one that isn't written yet."""


def parse_lease(raw: Mapping[str, Any]) -> Lease:
    """A Lease as the API server sends it, whoever wrote it."""
    spec = raw.get("spec") or {}
    return Lease(
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        acquired_at=spec.get("acquireTime") or "",
        version=raw["metadata"]["resourceVersion"],
    )


def written(lease: Lease, now: datetime) -> Mapping[str, Any]:
    """The spec that says so. Null takes a field away: a Lease that nobody holds has no holder."""
    return {
        "holderIdentity": lease.holder or None,
        "leaseDurationSeconds": max(1, round(lease.duration)),
        "leaseTransitions": lease.transitions,
        "acquireTime": lease.acquired_at or now.strftime(_MICRO_TIME),
        "renewTime": now.strftime(_MICRO_TIME),
    }
