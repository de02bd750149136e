"""What a pod tells the operator: at its end by its termination message, and while it runs by /progress.

The kubelet keeps the last 4,096 bytes of a termination message, so a report is cut to that budget before it is
written: lists from their end first, texts after them, counts never.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from batchwright.api import status
from batchwright.api.conditions import Reason
from batchwright.api.model import Model
from batchwright.api.names import TERMINATION_MESSAGE_BYTES

ELLIPSIS = "…"


class PlanReport(Model):
    """The input is good; this is how it is split."""

    kind: Literal["plan"] = "plan"
    version: Literal[1] = 1
    fingerprint: str
    plan_uri: str
    lines: int
    shards: int
    endpoint: str
    model: str | None = None


class FailureReport(Model):
    """A stage ended in a failure that no other attempt can mend, or in one that may pass (`final` false)."""

    kind: Literal["failure"] = "failure"
    version: Literal[1] = 1
    reason: Reason
    final: bool = True
    validation_error_count: int | None = None
    validation_errors_uri: str | None = None
    message: str
    validation_errors: tuple[status.ValidationError, ...] = ()


class Progress(Model):
    """Cumulative counts of one worker index over all its pods of a run."""

    kind: Literal["progress"] = "progress"
    version: Literal[1] = 1
    index: int
    run: int
    completed: int = 0
    failed: int = 0
    shards_completed: int = 0
    shards_failed: int = 0
    shards_active: int = 0
    usage: status.Usage = status.Usage()
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    server_available: bool = True
    server_message: str = ""


class InterruptedReport(Model):
    """SIGTERM: the worker flushed and left; its successor goes on."""

    kind: Literal["interrupted"] = "interrupted"
    version: Literal[1] = 1
    progress: Progress | None = None
    message: str = ""


class MergeReport(Model):
    """Everything is published; these are the totals."""

    kind: Literal["merge"] = "merge"
    version: Literal[1] = 1
    request_counts: status.RequestCounts
    usage: status.Usage
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    error_codes: dict[str, int] = Field(default_factory=dict)
    output: status.PublishedObject | None = None
    errors: status.PublishedObject | None = None
    retry: status.PublishedObject | None = None
    warnings: tuple[str, ...] = ()


class ShardsMissingReport(Model):
    """The merge found shards without a record: the operator runs the job again for them."""

    kind: Literal["shards_missing"] = "shards_missing"
    version: Literal[1] = 1
    count: int
    shards: str
    """Compressed ranges, such as `0-5,7`, cut to a bound."""


Report = PlanReport | FailureReport | Progress | InterruptedReport | MergeReport | ShardsMissingReport
_REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="kind")])


def encode_report(report: Report, budget: int = TERMINATION_MESSAGE_BYTES) -> str:
    """A report as JSON of at most `budget` bytes."""
    text = _dump(report)
    while len(text.encode()) > budget:
        shorter = _shorten(report, len(text.encode()) - budget)
        if shorter is None:
            raise ValueError(f"a {report.kind} report doesn't fit into {budget} bytes")
        report, text = shorter, _dump(shorter)
    return text


def decode_report(text: str) -> Report | None:
    """The report in a termination message; None where the message is none of ours."""
    try:
        return _REPORT.validate_json(text)
    except ValidationError:
        return None


def _dump(report: Report) -> str:
    return report.model_dump_json(by_alias=True, exclude_none=True)


def _shorten(report: Report, excess: int) -> Report | None:
    """One step shorter: the end of a list goes, or the excess of a text; None where nothing is left to cut."""
    match report:
        case FailureReport(validation_errors=errors) if errors:
            return report.model_copy(update={"validation_errors": errors[: len(errors) - max(1, len(errors) // 10)]})
        case MergeReport(warnings=warnings) if warnings:
            return report.model_copy(update={"warnings": warnings[:-1]})
        case MergeReport(error_codes=codes) if len(codes) > 1:
            return report.model_copy(update={"error_codes": dict(list(codes.items())[: len(codes) // 2])})
        case FailureReport(message=message) | InterruptedReport(message=message) if len(message) > 1:
            return report.model_copy(update={"message": cut(message, max(1, len(message) - excess))})
        case ShardsMissingReport(shards=shards) if len(shards) > 1:
            return report.model_copy(update={"shards": cut(shards, max(1, len(shards) - excess))})
        case _:
            return None


def cut(text: str, length: int) -> str:
    """At most `length` characters of a text; an ellipsis says that it was longer."""
    return text if len(text) <= length else text[: max(0, length - 1)] + ELLIPSIS
