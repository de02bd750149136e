"""Requests and limits of a worker: the user's over our defaults, name by name."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

REQUESTS = {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "1Gi"}
LIMITS = {"memory": "512Mi", "ephemeral-storage": "4Gi"}
"""Fit for 20 million lines in the plan, and for 64 requests in flight of ordinary size in the run. No limit on CPU:
it would only slow a worker down."""

_SUFFIXES: dict[str, Decimal | int] = {"": 1, "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SUFFIXES |= {suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)}
_SUFFIXES |= {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}


def worker_resources(given: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of the container. A default gives way where it contradicts the user's value: a limit alone lowers
    our request to it, a request alone raises our limit to it."""
    asked, bounds = dict(given.get("requests") or {}), dict(given.get("limits") or {})
    requests, limits = dict(REQUESTS), dict(LIMITS)
    for name, bound in bounds.items():
        if name in requests and _amount(bound) < _amount(requests[name]):
            requests[name] = bound
    for name, value in asked.items():
        if name in limits and _amount(value) > _amount(limits[name]):
            limits[name] = value
    others = {name: value for name, value in given.items() if name not in ("limits", "requests")}
    return {"requests": requests | asked, "limits": limits | bounds, **others}


def doubled(quantity: str) -> str:
    """Twice as much memory, as people write it: 1Gi for 512Mi. Empty for a quantity that can't be read."""
    amount = 2 * _amount(quantity)
    for suffix in ("Gi", "Mi", "Ki"):
        if amount and amount % _SUFFIXES[suffix] == 0:
            return f"{int(amount / _SUFFIXES[suffix])}{suffix}"
    return str(int(amount)) if amount else ""


def _amount(quantity: object) -> Decimal:
    """A Kubernetes quantity as a number; 0 for one that can't be read, which the API server will refuse."""
    match = re.fullmatch(r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e([+-]?[0-9]{1,3}))?([A-Za-z]{0,2})", str(quantity))
    if match is None or match[3] not in _SUFFIXES:
        return Decimal(0)
    return Decimal(f"{match[1]}e{match[2] or 0}") * _SUFFIXES[match[3]]
