"""Path-based batches as their clients read them. Pure."""

from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, Field

from batchwright.batchfile.progress_object import rounded, throughput
from batchwright.gateway.records.batch_record import BatchRecord, BatchState, PathRequest, Status

PathStatus = Literal["pending", "running", "completed", "failed"]

STATUSES: Final[dict[Status, PathStatus]] = {
    "validating": "pending",
    "in_progress": "running",
    "finalizing": "running",
    "cancelling": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
    "expired": "failed",
}
_ENDS: Final[dict[Status, str]] = {
    "failed": "The batch failed",
    "cancelled": "The batch was cancelled",
    "expired": "The batch has expired",
}
_LISTED_ERRORS: Final = 10


class CreatedBatch(BaseModel):
    """A batch, as it is told of once it was made or changed."""

    batch_id: str
    input_file: str
    output_folder_path: str
    status: PathStatus


class ListedBatch(BaseModel):
    """A batch in the list."""

    batch_id: str
    cluster: str
    created_at: str = Field(description="In UTC, such as `2025-02-20 18:39:58.049584+00:00`.")
    framework: str
    input_file: str
    status: PathStatus


class Metrics(BaseModel):
    """How the run was."""

    response_time: float = Field(description="Seconds that the run took.")
    throughput_tokens_per_second: float = Field(description="total_tokens over response_time.")
    total_tokens: int = Field(description="Tokens read and written, as far as the model server told.")
    num_responses: int = Field(description="Lines that were answered with a 2xx status.")
    lines_processed: int = Field(description="All lines.")


class BatchResult(BaseModel):
    """What a completed batch gave."""

    results_file: str | None = Field(description="Null where no line was answered with a 2xx status.")
    progress_file: str
    errors_file: str | None = Field(description="Lines that failed. Null where none did.")
    metrics: Metrics


def created(record: BatchRecord, state: BatchState) -> CreatedBatch:
    """What the client reads of a batch that it made or cancelled."""
    asked = _asked(record)
    return CreatedBatch(
        batch_id=record.id,
        input_file=asked.input_file,
        output_folder_path=asked.output_folder_path,
        status=STATUSES[state.status],
    )


def listed(record: BatchRecord, state: BatchState) -> ListedBatch:
    """A batch in the list."""
    asked = _asked(record)
    return ListedBatch(
        batch_id=record.id,
        cluster=asked.cluster,
        created_at=shown_time(record.created_at),
        framework=asked.framework,
        input_file=asked.input_file,
        status=STATUSES[state.status],
    )


def shown_time(moment: datetime) -> str:
    """A moment in UTC, always with its microseconds."""
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="microseconds")


def result(record: BatchRecord, state: BatchState) -> BatchResult | str | None:
    """What a batch gave: its files and metrics, or why it failed. None while it hasn't ended."""
    if not state.ended:
        return None
    return _completed(_asked(record), state) if state.status == "completed" else _reason(_asked(record), state)


def _completed(asked: PathRequest, state: BatchState) -> BatchResult:
    seconds, tokens = state.response_time or 0.0, state.usage.total_tokens or 0
    return BatchResult(
        results_file=asked.results_file if state.counts.completed else None,
        progress_file=asked.progress_file,
        errors_file=asked.errors_file if state.counts.failed else None,
        metrics=Metrics(
            response_time=rounded(seconds),
            throughput_tokens_per_second=throughput(tokens, seconds),
            total_tokens=tokens,
            num_responses=state.counts.completed,
            lines_processed=state.counts.completed + state.counts.failed,
        ),
    )


def _reason(asked: PathRequest, state: BatchState) -> str:
    """One text that says which way it failed, why, and what there is of it all the same."""
    sentences = [f"{_ENDS[state.status]}: {_why(state)}"]
    if state.counts.completed:
        done = f"{state.counts.completed} of {state.counts.total} lines were answered"
        sentences.append(f"{done}; they are in {asked.results_file}")
    return ". ".join(sentence.rstrip(". ") for sentence in sentences) + "."


def _why(state: BatchState) -> str:
    errors = [
        f"line {error.line}: {error.message}" if error.line else error.message
        for error in state.errors[:_LISTED_ERRORS]
        if error.message
    ]
    return " ".join(errors) or state.message or "it says no more"


def _asked(record: BatchRecord) -> PathRequest:
    assert record.path_request is not None, "a batch of this face has what it was asked for"
    return record.path_request
