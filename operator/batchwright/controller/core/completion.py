"""The end of a BatchJob whose results are published."""

from datetime import datetime
from typing import Any

from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import MergeReport
from batchwright.api.status import BatchJobStatus, Metrics, ShardCounts, Usage
from batchwright.controller.core import progress
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.step import Step


def completed(observed: Observed, report: MergeReport, now: datetime) -> Step:
    """Completed, with the exact totals of the merge. That requests failed doesn't make the BatchJob fail."""
    status, requests = observed.status, report.request_counts
    shards = status.shards.total if status.shards else 0
    finished = requests.completed + requests.failed
    metrics, rate = _metrics(status, report, finished, now)
    facts: dict[str, Any] = {
        "request_counts": requests,
        "shards": ShardCounts(total=shards, completed=shards),
        "usage": report.usage if report.usage != Usage() else None,
        "finish_reasons": report.finish_reasons or None,
        "error_codes": report.error_codes or None,
        "output": report.output,
        "errors": report.errors,
        "retry": report.retry,
        "metrics": metrics,
        "progress": f"{finished}/{requests.total}",
        "rate": rate,
        "eta": None,
        "estimated_completion_time": None,
    }
    reason = Reason.COMPLETED_WITH_FAILURES if requests.failed else Reason.COMPLETED
    return Step(Phase.COMPLETED, reason, _message(report), facts=facts)


def _message(report: MergeReport) -> str:
    requests = report.request_counts
    if not requests.failed:
        text = f"All {requests.total} requests completed."
    else:
        text = f"{requests.completed} of {requests.total} requests completed, {requests.failed} failed"
        codes = ", ".join(f"{code}: {number}" for code, number in list(report.error_codes.items())[:3])
        text += f" ({codes})." if codes else "."
        if report.errors is not None and report.errors.uri:
            text += f" Why: {report.errors.uri}."
    return " ".join([text, *report.warnings])


def _metrics(
    status: BatchJobStatus, report: MergeReport, finished: int, now: datetime
) -> tuple[Metrics | None, str | None]:
    if status.in_progress_at is None:
        return None, None
    seconds = ((status.finalizing_at or now) - status.in_progress_at).total_seconds()
    if seconds <= 0:
        # Times have whole seconds: a run of less than one has no rate.
        return Metrics(response_time_seconds="0"), None
    tokens = report.usage.total_tokens
    metrics = Metrics(
        response_time_seconds=f"{seconds:g}",
        throughput_tokens_per_second=f"{tokens / seconds:.1f}" if tokens is not None else None,
        requests_per_second=f"{finished / seconds:.1f}",
    )
    return metrics, progress.format_rate(finished / seconds)
