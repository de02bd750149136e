"""Counting outcomes while they come in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from batchwright.api.text import fold_counts
from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage, UsageCount, add_counts
from batchwright.batchfile.shard_record import Totals

_USAGE_FIELDS: Final = Usage.__struct_fields__


@dataclass(slots=True)
class Tally:
    """Totals that can still grow."""

    completed: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    finish_reasons: dict[str, int] = field(default_factory=dict)
    error_codes: dict[str, int] = field(default_factory=dict)

    def success(self, reading: Reading) -> None:
        """A 2xx answer."""
        self.completed += 1
        self.usage = self.usage + reading.usage
        for reason in reading.finish_reasons:
            _count(self.finish_reasons, reason)

    def failure(self, code: str) -> None:
        """Anything else; `code` is the HTTP status or the error code."""
        self.failed += 1
        _count(self.error_codes, code)

    def totals(self) -> Totals:
        """The counts as a value."""
        return Totals(self.completed, self.failed, self.usage, dict(self.finish_reasons), dict(self.error_codes))


def _count(counts: dict[str, int], name: str) -> None:
    """Count a name. Servers choose them, so a new one has the counts folded; the usual ones cost nothing."""
    if name in counts:
        counts[name] += 1
        return
    counts[name] = 1
    folded = fold_counts(counts)
    counts.clear()
    counts.update(folded)


def add_totals(left: Totals, right: Totals) -> Totals:
    """Counts of two parts together."""
    return Totals(
        completed=left.completed + right.completed,
        failed=left.failed + right.failed,
        usage=left.usage + right.usage,
        finish_reasons=add_counts(left.finish_reasons, right.finish_reasons),
        error_codes=add_counts(left.error_codes, right.error_codes),
    )


def subtract_totals(whole: Totals, part: Totals) -> Totals:
    """Counts of the rest. Names that were folded together in one of both are as near as can be; none is below zero."""
    if part == Totals():
        return whole
    return Totals(
        completed=max(0, whole.completed - part.completed),
        failed=max(0, whole.failed - part.failed),
        usage=Usage(**{name: _rest(getattr(whole.usage, name), getattr(part.usage, name)) for name in _USAGE_FIELDS}),
        finish_reasons=_rest_by_name(whole.finish_reasons, part.finish_reasons),
        error_codes=_rest_by_name(whole.error_codes, part.error_codes),
    )


def _rest(whole: UsageCount, part: UsageCount) -> UsageCount:
    return whole if whole is None or part is None else max(0, whole - part)


def _rest_by_name(whole: Mapping[str, int], part: Mapping[str, int]) -> dict[str, int]:
    rest = {name: count - part.get(name, 0) for name, count in whole.items()}
    return {name: count for name, count in rest.items() if count > 0}
