"""Sets of numbers such as shards, compressed: `0-5,7`."""

import re
from collections.abc import Iterable, Set
from typing import Final

_RANGES: Final = re.compile(r"(?:[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)?")


def compressed(numbers: Iterable[int]) -> str:
    """Numbers, in whatever order, as ascending ranges."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def expanded(text: str, limit: int) -> Set[int]:
    """The numbers of ranges, all of them below a limit.

    Raises:
        ValueError: not ranges, or numbers beyond the limit.
    """
    if not _RANGES.fullmatch(text):
        raise ValueError(f"not ranges of numbers: {text[:40]!r}")
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or high >= limit:
            raise ValueError(f"not ranges of numbers below {limit}: {part!r}")
        found.update(range(low, high + 1))
    return found
