"""Counts of requests, shards and tokens while the run goes on. What was published never falls.

Each worker index of each run reports cumulative counts over all its pods. An index that nobody has heard of yet, after
a restart of the operator for instance, makes a sum too small, so the published value stays until the sum passes it.
What stands from an earlier BatchJob is no worker's: it is added to what they report. The merge counts everything again,
and its totals are exact.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from batchwright.api.reports import Progress
from batchwright.api.status import BatchJobStatus, RequestCounts, Reused, ShardCounts, Usage

_USAGE_FIELDS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "total_tokens")
_MOMENTARY = (
    "shards_active",
    "concurrency",
    "server_available",
    "server_reason",
    "server_since",
    "server_message",
)


def latest_of_each_worker(reports: Iterable[Progress]) -> tuple[Progress, ...]:
    """One report for each index of each run, from reports in the order in which they came.

    Counts are those of the report that is furthest, since cumulative counts only grow: a pod that has just replaced
    another may still be behind it. What is true of the moment is taken from the last report.
    """
    latest: dict[tuple[int, int], Progress] = {}
    for report in reports:
        key = (report.run, report.index)
        known = latest.get(key)
        if known is None or _done(report) >= _done(known):
            latest[key] = report
        else:
            latest[key] = known.model_copy(update={name: getattr(report, name) for name in _MOMENTARY})
    return tuple(latest[key] for key in sorted(latest))


def done(status: BatchJobStatus) -> int:
    """Requests that ended, one way or the other."""
    counts = status.request_counts
    return counts.completed + counts.failed if counts else 0


def done_by_now(status: BatchJobStatus, progress: Iterable[Progress]) -> int:
    """Requests that ended, as far as is known, whether that was published yet or not."""
    counts = requests(status, progress)
    return counts.completed + counts.failed


def facts(status: BatchJobStatus, progress: Iterable[Progress], run: int) -> dict[str, Any]:
    """The counting fields of the status, from what the workers reported and what was published before."""
    reports = _of_this_batchjob(status, progress)
    changes: dict[str, Any] = {
        "request_counts": requests(status, reports),
        "shards": _shards(status, reports, run),
        "usage": _usage(status, reports),
        "finish_reasons": _finish_reasons(status, reports),
    }
    return {name: value for name, value in changes.items() if value is not None}


def _of_this_batchjob(status: BatchJobStatus, progress: Iterable[Progress]) -> tuple[Progress, ...]:
    """Where everything stands already, workers have nothing to do: their counts are of the earlier BatchJob."""
    reused, counts = status.reused, status.request_counts
    if reused is not None and counts is not None and reused.completed + reused.failed >= counts.total:
        return ()
    return tuple(progress)


def _reused(status: BatchJobStatus) -> Reused:
    return status.reused or Reused()


def requests(status: BatchJobStatus, progress: Iterable[Progress]) -> RequestCounts:
    """Requests by outcome, from what the workers reported and what was published before."""
    reports = _of_this_batchjob(status, progress)
    before, reused = status.request_counts or RequestCounts(), _reused(status)
    heard_completed = reused.completed + sum(report.completed for report in reports)
    heard_failed = reused.failed + sum(report.failed for report in reports)
    # A shard that runs again in a repair may count a line twice until the merge; the total is known from the plan.
    failed = max(before.failed, min(heard_failed, before.total - before.completed))
    completed = max(before.completed, min(heard_completed, before.total - failed))
    return RequestCounts(total=before.total, completed=completed, failed=failed)


def without_repetitions(status: BatchJobStatus, progress: Iterable[Progress]) -> RequestCounts:
    """The same, with no failure counted twice: in a repair, a failed line may be done or taken up again that a worker
    of an earlier run had counted. Of several runs the one with the most failures counts, which may be too few."""
    counts = requests(status, progress)
    if (status.run or 1) == 1:
        return counts
    failed: Counter[int] = Counter()
    for report in _of_this_batchjob(status, progress):
        failed[report.run] += report.failed
    known = _reused(status).failed + max(failed.values(), default=0)
    return counts.model_copy(update={"failed": min(counts.failed, known)})


def _shards(status: BatchJobStatus, reports: tuple[Progress, ...], run: int) -> ShardCounts:
    before = status.shards or ShardCounts()
    completed = _reused(status).shards + sum(report.shards_completed for report in reports)
    return ShardCounts(
        total=before.total,
        completed=max(before.completed, min(completed, before.total)),
        failed=max(before.failed, min(sum(report.shards_failed for report in reports), before.total)),
        active=min(sum(report.shards_active for report in reports if report.run == run), before.total),
    )


def _usage(status: BatchJobStatus, reports: tuple[Progress, ...]) -> Usage | None:
    before, reused = status.usage or Usage(), _reused(status).usage or Usage()
    usages = (reused, *(report.usage for report in reports))
    sums = {name: _sum_known(getattr(usage, name) for usage in usages) for name in _USAGE_FIELDS}
    values = {name: _larger(getattr(before, name), value) for name, value in sums.items()}
    return Usage(**values) if any(value is not None for value in values.values()) else None


def _finish_reasons(status: BatchJobStatus, reports: tuple[Progress, ...]) -> dict[str, int] | None:
    sums: Counter[str] = Counter(_reused(status).finish_reasons or {})
    for report in reports:
        sums.update(report.finish_reasons)
    before = status.finish_reasons or {}
    merged = {name: max(before.get(name, 0), sums.get(name, 0)) for name in [*before, *sums]}
    return merged or None


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _larger(left: int | None, right: int | None) -> int | None:
    return max((value for value in (left, right) if value is not None), default=None)


def _done(report: Progress) -> tuple[int, int]:
    return report.completed + report.failed, report.shards_completed
