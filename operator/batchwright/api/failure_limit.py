"""`spec.requests.maxFailures`: how many requests may fail."""

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.status import RequestCounts


def exceeded(spec: BatchJobSpec, counts: RequestCounts) -> str | None:
    """The limit as the spec has it, where more requests failed than it allows; None where they didn't."""
    limit = spec.requests.max_failures if spec.requests else None
    if limit is None:
        return None
    if isinstance(limit, int):
        return str(limit) if counts.failed > limit else None
    return limit if counts.failed * 100 > int(limit.removesuffix("%")) * counts.total else None
