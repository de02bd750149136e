"""What a pod tells the operator: at its end by its termination message, and while it runs by /progress.

The kubelet keeps the last 4,096 bytes of a termination message, so a report is cut to that budget before it is
written: lists from their end first, texts after them, URIs last, since they follow from the spec. Counts are never cut.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from batchwright.api import status
from batchwright.api.conditions import Reason
from batchwright.api.model import TolerantModel
from batchwright.api.names import TERMINATION_MESSAGE_BYTES
from batchwright.api.text import ELLIPSIS, CountsByName, Message, Sentence, cut

_READABLE = 160
"""Characters that a text keeps while something less telling can still go."""


class PlanReport(TolerantModel):
    """The input is good; this is how it is split. An empty `plan_uri` did not fit."""

    kind: Literal["plan"] = "plan"
    version: Literal[1] = 1
    fingerprint: status.Fingerprint
    plan_uri: status.URI
    lines: status.Count
    shards: status.Count
    endpoint: status.EndpointPath
    model: status.ModelName | None = None
    reused: status.Reused | None = None
    """What stands from an earlier BatchJob; None where nothing does."""


class FailureReport(TolerantModel):
    """A stage ended in a failure that no other attempt can mend, or in one that may pass (`final` false)."""

    kind: Literal["failure"] = "failure"
    version: Literal[1] = 1
    reason: Reason
    final: bool = True
    validation_error_count: status.Count | None = None
    validation_errors_uri: status.URI | None = None
    message: Message
    validation_errors: tuple[status.ValidationError, ...] = ()


class Progress(TolerantModel):
    """Cumulative counts of one worker index over all its pods of a run."""

    kind: Literal["progress"] = "progress"
    version: Literal[1] = 1
    index: status.Count
    run: status.Count
    completed: status.Count = 0
    failed: status.Count = 0
    shards_completed: status.Count = 0
    shards_failed: status.Count = 0
    shards_active: status.Count = 0
    usage: status.Usage = status.Usage()
    finish_reasons: CountsByName = Field(default_factory=dict)
    concurrency: status.Count | None = None
    """Requests in flight that the worker allows itself now."""
    server_available: bool = True
    server_reason: Reason | None = None
    """Why the server is away; None while it is there."""
    server_since: datetime | None = None
    server_message: Sentence = ""


class MergeProgress(TolerantModel):
    """How far the merge is. It is only ever served, and no pod's last word."""

    kind: Literal["merge_progress"] = "merge_progress"
    version: Literal[1] = 1
    run: status.Count
    bytes_joined: status.Count = 0
    bytes_total: status.Count = 0
    """0 until the shard records are read."""
    message: Sentence = ""
    """What it waits for, or does before it joins: closing unfinished shards. Empty otherwise."""


class InterruptedReport(TolerantModel):
    """SIGTERM: the worker flushed and left; its successor goes on."""

    kind: Literal["interrupted"] = "interrupted"
    version: Literal[1] = 1
    progress: Progress | None = None
    message: Message = ""


class MergeReport(TolerantModel):
    """Everything is published; these are the totals. An empty URI of an object did not fit."""

    kind: Literal["merge"] = "merge"
    version: Literal[1] = 1
    request_counts: status.RequestCounts
    usage: status.Usage
    finish_reasons: CountsByName = Field(default_factory=dict)
    error_codes: CountsByName = Field(default_factory=dict)
    output: status.PublishedObject | None = None
    errors: status.PublishedObject | None = None
    retry: status.PublishedObject | None = None
    response_time_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long the run was, as the progress object says; None where none is wanted."""
    warnings: tuple[Sentence, ...] = ()


class ShardsMissingReport(TolerantModel):
    """The merge found shards without a record: the operator runs the job again for them."""

    kind: Literal["shards_missing"] = "shards_missing"
    version: Literal[1] = 1
    count: status.Count
    shards: str
    """Compressed ranges, such as `0-5,7`, for people; cut after a comma where there are too many."""


Report = PlanReport | FailureReport | Progress | InterruptedReport | MergeProgress | MergeReport | ShardsMissingReport
_REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="kind")])


def encode_report(report: Report, budget: int = TERMINATION_MESSAGE_BYTES) -> str:
    """A report as JSON of at most `budget` bytes. Every report fits into 4,096 bytes.

    Raises:
        ValueError: the budget is too small even for the counts.
    """
    if _size(report) <= budget:
        return _dump(report)
    for part in _parts(report):
        if _size(part.cut_to(part.least)) <= budget:
            return _dump(_longest(part, budget))
    raise ValueError(f"a {report.kind} report doesn't fit into {budget} bytes")


def decode_report(text: str) -> Report | None:
    """The report in a termination message; None where the message is none of ours."""
    try:
        return _REPORT.validate_json(text)
    except ValidationError:
        return None


def _dump(report: Report) -> str:
    return report.model_dump_json(by_alias=True, exclude_none=True)


def _size(report: Report) -> int:
    return len(_dump(report).encode())


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that can be cut: `length` now, at least `least`, and the report with only so much of it."""

    length: int
    least: int
    cut_to: Callable[[int], Report]


def _longest(part: _Part, budget: int) -> Report:
    """The report with as much of a part as fits, which its least does and its whole length does not."""
    lengths = range(part.least, part.length)
    fitting = bisect_right(lengths, budget, key=lambda length: _size(part.cut_to(length)))
    return part.cut_to(lengths[fitting - 1])


def _parts(report: Report) -> Iterator[_Part]:
    """What can be cut, the least telling first; each part takes those before it as cut to their least."""
    match report:
        case FailureReport():
            yield from _failure_parts(report)
        case MergeReport():
            yield from _merge_parts(report)
        case InterruptedReport():
            yield from _interrupted_parts(report)
        case Progress(server_message=message):
            yield _Part(len(message), 0, lambda n: report.model_copy(update={"server_message": cut(message, n)}))
        case MergeProgress(message=message):
            yield _Part(len(message), 0, lambda n: report.model_copy(update={"message": cut(message, n)}))
        case ShardsMissingReport(shards=shards):
            yield _Part(len(shards), 0, lambda n: report.model_copy(update={"shards": _cut_ranges(shards, n)}))
        case PlanReport():
            yield from _plan_parts(report)


def _plan_parts(report: PlanReport) -> Iterator[_Part]:
    """Only the name of a model that is all escapes takes so much. The merge counts tokens and finish reasons again."""
    bare = report.reused and report.reused.model_copy(update={"finish_reasons": None, "usage": None})
    yield _Part(1, 0, lambda _: report.model_copy(update={"reused": bare}))
    yield _Part(1, 0, lambda _: report.model_copy(update={"reused": bare, "plan_uri": ""}))


def _interrupted_parts(report: InterruptedReport) -> Iterator[_Part]:
    def cut_to(length: int, progress: Report | None) -> InterruptedReport:
        return report.model_copy(update={"message": cut(report.message, length), "progress": progress})

    yield _Part(len(report.message), 0, lambda n: cut_to(n, report.progress))
    for part in _parts(report.progress) if report.progress else ():
        yield _Part(part.length, part.least, _within(part, lambda progress: cut_to(0, progress)))


def _within(part: _Part, outer: Callable[[Report], Report]) -> Callable[[int], Report]:
    return lambda length: outer(part.cut_to(length))


def _failure_parts(report: FailureReport) -> Iterator[_Part]:
    errors, message = report.validation_errors, report.message

    def cut_to(texts: int, count: int, length: int, *, uri: bool = True) -> FailureReport:
        kept = [error.model_copy(update={"message": cut(error.message, texts)}) for error in errors[:count]]
        changes = {"validation_errors": tuple(kept), "message": cut(message, length)}
        return report.model_copy(update=changes if uri else changes | {"validation_errors_uri": None})

    longest = max((len(error.message) for error in errors), default=0)
    yield _Part(longest, min(longest, _READABLE), lambda n: cut_to(n, len(errors), len(message)))
    yield _Part(len(errors), min(len(errors), 1), lambda n: cut_to(_READABLE, n, len(message)))
    yield _Part(len(message), min(len(message), _READABLE), lambda n: cut_to(_READABLE, 1, n))
    yield _Part(1, 0, lambda n: cut_to(_READABLE, n, _READABLE))
    yield _Part(_READABLE, 0, lambda n: cut_to(0, 0, n))
    yield _Part(1, 0, lambda _: cut_to(0, 0, 0, uri=False))


def _merge_parts(report: MergeReport) -> Iterator[_Part]:
    warnings = report.warnings
    objects = {"output": report.output, "errors": report.errors, "retry": report.retry}
    bare = {name: value and value.model_copy(update={"uri": ""}) for name, value in objects.items()}
    longest = max((len(warning) for warning in warnings), default=0)

    def cut_to(texts: int, count: int) -> MergeReport:
        return report.model_copy(update={"warnings": tuple(cut(warning, texts) for warning in warnings[:count])})

    yield _Part(longest, min(longest, _READABLE), lambda n: cut_to(n, len(warnings)))
    yield _Part(len(warnings), 0, lambda n: cut_to(_READABLE, n))
    yield _Part(1, 0, lambda _: report.model_copy(update={"warnings": (), **bare}))


def _cut_ranges(shards: str, length: int) -> str:
    """Whole ranges of at most `length` characters, and an ellipsis for the rest."""
    if len(shards) <= length:
        return shards
    kept = shards[: max(0, length - 1)].rpartition(",")[0]
    return f"{kept},{ELLIPSIS}" if kept else ELLIPSIS[:length]
