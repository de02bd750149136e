"""Finding custom_ids that stand twice, in 8 bytes for each.

Two equal digests are only a suspicion: the ids themselves are compared in a second pass over the input, which happens
for no good file.
"""

from array import array
from collections.abc import Iterable
from typing import Final

_BUCKETS: Final = 256
MAX_SUSPECTS: Final = 200_000
"""A bound on memory for a file that stands twice in itself. Past it the count of duplicates is a lower bound."""


def digest_of(custom_id: str) -> int:
    """A number of 64 bits, such as `IdDigests.suspects` has. Python's own hash: keyed anew for every process."""
    return hash(custom_id)


class IdDigests:
    """Digests of ids, in buckets, so that looking for equal ones needs little more memory."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, custom_id: str) -> None:
        """Remember an id."""
        digest = hash(custom_id)
        self._buckets[digest % _BUCKETS].append(digest)

    def suspects(self) -> set[int]:
        """Digests that came more than once, about MAX_SUSPECTS at most."""
        repeated: set[int] = set()
        for bucket in self._buckets:
            if len(repeated) >= MAX_SUSPECTS:
                break
            if len(set(bucket)) < len(bucket):
                repeated.update(_repeated(bucket))
        return repeated


def _repeated(digests: Iterable[int]) -> set[int]:
    seen: set[int] = set()
    repeated: set[int] = set()
    for digest in digests:
        (repeated if digest in seen else seen).add(digest)
    return repeated
