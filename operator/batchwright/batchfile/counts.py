"""Token counts and totals of answers. Unknown is not zero: a count that no answer reported stays None."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from batchwright.api.text import fold_counts

MAX_TOTAL: Final = 2**63 - 1
"""Totals stop here: they are int64 in the status, and no run comes near it with counts that are true."""

UsageCount = int | None


class Usage(Struct, frozen=True):
    """Tokens that the server reported."""

    input_tokens: UsageCount = None
    cached_tokens: UsageCount = None
    output_tokens: UsageCount = None
    reasoning_tokens: UsageCount = None
    total_tokens: UsageCount = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.cached_tokens, other.cached_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.reasoning_tokens, other.reasoning_tokens),
            _add(self.total_tokens, other.total_tokens),
        )


def _add(left: UsageCount, right: UsageCount) -> UsageCount:
    if left is None or right is None:
        return left if right is None else right
    total = left + right
    return total if total < MAX_TOTAL else MAX_TOTAL  # min() takes three times as long


class ProgressCounts(Struct, frozen=True):
    """What a progress object counts."""

    lines_processed: int = 0
    """Requests that have ended, one way or the other."""
    total_tokens: int = 0
    num_responses: int = 0
    """Requests answered with a 2xx status."""

    def __add__(self, other: "ProgressCounts") -> "ProgressCounts":
        return ProgressCounts(
            self.lines_processed + other.lines_processed,
            min(MAX_TOTAL, self.total_tokens + other.total_tokens),
            self.num_responses + other.num_responses,
        )

    def at_least(self, other: "ProgressCounts") -> "ProgressCounts":
        """Of each count the greater one."""
        return ProgressCounts(
            max(self.lines_processed, other.lines_processed),
            max(self.total_tokens, other.total_tokens),
            max(self.num_responses, other.num_responses),
        )

    def at_most(self, lines: int) -> "ProgressCounts":
        """The same, of an input of so many requests."""
        return ProgressCounts(min(self.lines_processed, lines), self.total_tokens, min(self.num_responses, lines))


def add_counts(*counts: Mapping[str, int]) -> dict[str, int]:
    """Sum of counts by name, the greatest first; as many names as fold_counts keeps, since servers choose them."""
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return fold_counts(total)


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Sum of many."""
    return sum(usages, start=Usage())
