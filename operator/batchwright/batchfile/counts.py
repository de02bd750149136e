"""Token counts and totals of answers. Unknown is not zero: a count that no answer reported stays None."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

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
    return left + right


def add_counts(*counts: Mapping[str, int]) -> dict[str, int]:
    """Sum of counts by name, the greatest first."""
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Sum of many."""
    return sum(usages, start=Usage())
