"""The end of a BatchJob: the exact totals of its merge, and what a person reads about them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from batchwright.api.conditions import Phase, Reason
from batchwright.api.reports import MergeReport
from batchwright.api.status import BatchJobStatus, Metrics, ShardCounts, Usage
from batchwright.api.undone import Undone
from batchwright.controller.core import progress, reused
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.step import Step
from batchwright.controller.core.stops import Stop

_CODES_SHOWN: Final = 3
_GO_ON: Final = "To go on, delete this BatchJob and apply it anew: what is finished is not sent again."


def completed(observed: Observed, report: MergeReport, now: datetime) -> Step:
    """Completed, with the exact totals of the merge. That requests failed doesn't make the BatchJob fail."""
    requests = report.request_counts
    reason = Reason.COMPLETED_WITH_FAILURES if requests.failed else Reason.COMPLETED
    text = _outcome(report) if requests.failed else f"All {requests.total} requests completed."
    if requests.failed and report.errors is not None and report.errors.uri:
        text += f" Why: {report.errors.uri}."
    return Step(Phase.COMPLETED, reason, _joined(observed, [text], report), facts=_facts(observed, report, now))


def stopped(observed: Observed, stop: Stop, report: MergeReport, now: datetime) -> Step:
    """The end of a stop whose finished work is published."""
    kinds = {"results": report.output, "errors": report.errors}
    published = " and ".join(kind for kind, file in kinds.items() if file is not None)
    parts = [stop.why.message, _outcome(report)]
    if published:
        parts.append(f"{published.capitalize()} are published.")
    if undone(report):
        parts.append(_GO_ON)
        if report.retry is not None and report.retry.uri:
            parts.append(f"The request lines that are left are in {report.retry.uri}.")
    return Step(stop.end, stop.why.reason, _joined(observed, parts, report), facts=_facts(observed, report, now))


def unpublished(stop: Stop, why: str) -> Step:
    """The end of a stop after which nothing could be published."""
    text = f"{stop.why.message} Nothing could be published: {why.rstrip('.')}. What is finished is kept. {_GO_ON}"
    return Step(stop.end, stop.why.reason, text)


def _joined(observed: Observed, parts: list[str], report: MergeReport) -> str:
    return " ".join(filter(None, [*parts, reused.sentence(observed.status), *report.warnings]))


def undone(report: MergeReport) -> int:
    """Requests that the batch ended without."""
    return sum(report.error_codes.get(code.value, 0) for code in Undone)


def _outcome(report: MergeReport) -> str:
    requests, left = report.request_counts, undone(report)
    failed = requests.failed - left
    text = f"{requests.completed} of {requests.total} requests completed"
    if failed:
        text += f", {failed} failed{_codes(report.error_codes)}"
    return f"{text}, {left} were not done." if left else f"{text}."


def _codes(error_codes: Mapping[str, int]) -> str:
    own = [f"{code}: {number}" for code, number in error_codes.items() if code not in set(Undone)]
    return f" ({', '.join(own[:_CODES_SHOWN])})" if own else ""


def _facts(observed: Observed, report: MergeReport, now: datetime) -> dict[str, Any]:
    status, requests = observed.status, report.request_counts
    done = requests.completed + requests.failed - undone(report)
    metrics, rate = _metrics(status, report, done - reused.requests(status), now)
    return {
        "request_counts": requests,
        "shards": _shards(status, all_done=not undone(report)),
        "usage": report.usage if report.usage != Usage() else None,
        "finish_reasons": report.finish_reasons or None,
        "error_codes": report.error_codes or None,
        "output": report.output,
        "errors": report.errors,
        "retry": report.retry,
        "metrics": metrics,
        "progress": f"{done}/{requests.total}",
        "rate": rate,
        "eta": None,
        "estimated_completion_time": None,
    }


def _shards(status: BatchJobStatus, *, all_done: bool) -> ShardCounts:
    """Those that the workers finished: the records that a closing merge writes are none of them."""
    before = status.shards or ShardCounts()
    if all_done:
        return ShardCounts(total=before.total, completed=before.total)
    return before.model_copy(update={"active": 0})


def _run_seconds(status: BatchJobStatus, report: MergeReport, now: datetime) -> float | None:
    """How long the run was. Where a progress object says it, the status says the same."""
    if report.response_time_seconds is not None:
        return report.response_time_seconds
    if status.in_progress_at is None:
        return None
    ends = [moment for moment in (status.finalizing_at, status.cancelling_at) if moment is not None]
    return (min(ends, default=now) - status.in_progress_at).total_seconds()


def _shortest(seconds: float) -> str:
    """To thousandths, without zeros at the end."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def _metrics(
    status: BatchJobStatus, report: MergeReport, done: int, now: datetime
) -> tuple[Metrics | None, str | None]:
    """Of what this BatchJob did itself: `done` requests."""
    seconds = _run_seconds(status, report, now)
    if seconds is None:
        return None, None
    if seconds <= 0 or not done:
        # Times have whole seconds: a run of less than one has no rate.
        return Metrics(response_time_seconds=_shortest(max(0, seconds))), None
    tokens = report.usage.total_tokens
    if tokens is not None:
        tokens = max(0, tokens - reused.tokens(status))
    metrics = Metrics(
        response_time_seconds=_shortest(seconds),
        throughput_tokens_per_second=f"{tokens / seconds:.1f}" if tokens is not None else None,
        requests_per_second=f"{done / seconds:.1f}",
    )
    return metrics, progress.format_rate(done / seconds)
