"""Counting outcomes while they come in."""

from dataclasses import dataclass, field

from batchwright.api.text import fold_counts
from batchwright.batchfile.answer import Reading
from batchwright.batchfile.counts import Usage, add_counts
from batchwright.batchfile.shard_record import Totals


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
