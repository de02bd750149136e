"""Whether folders of different tenants can lie in one another, by the patterns that they are named by. Pure."""

from collections.abc import Sequence
from typing import Final

TENANT: Final = "{tenant}"
"""Stands for a tenant's namespace in a path."""


def segments(path: str) -> tuple[str, ...]:
    """The names in a path."""
    return tuple(name for name in path.split("/") if name)


def can_meet(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether for two different tenants one pattern's folder can be the other's, or lie in it.

    Where both have the tenant's name at the same place, two tenants part there. Where one has it and the other a word,
    a tenant of that name would meet it.
    """
    for mine, theirs in zip(one, other, strict=False):
        if mine == theirs == TENANT:
            return False
        if TENANT not in mine and TENANT not in theirs and mine != theirs:
            return False
        if mine != theirs and (mine.startswith(".") or theirs.startswith(".")):  # no namespace begins so
            return False
    return True
