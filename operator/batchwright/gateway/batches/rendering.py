"""Where a batch stands, read from its BatchJob, and the batch object that OpenAI's clients read. Pure.

Only OpenAI's own state names leave here: clients loop until they see a terminal one that they know.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from batchwright.api import names
from batchwright.api.conditions import TERMINAL_PHASES, ConditionType, Phase, Reason
from batchwright.api.status import BatchJobStatus
from batchwright.api.undone import Undone
from batchwright.batchfile.counts import Usage
from batchwright.gateway.records.batch_record import BatchError, BatchRecord, BatchState, Counts, Status, Times
from batchwright.kube.connection import RawObject

LISTED_ERRORS: Final = 100
DELETED: Final = "batchjob_deleted"

_WORKING: Final[Mapping[Phase, Status]] = {
    Phase.PENDING: "validating",
    Phase.VALIDATING: "validating",
    Phase.IN_PROGRESS: "in_progress",
    Phase.FINALIZING: "finalizing",
    Phase.CANCELLING: "cancelling",
}
_ENDED: Final[Mapping[Phase, Status]] = {
    Phase.COMPLETED: "completed",
    Phase.FAILED: "failed",
    Phase.CANCELLED: "cancelled",
    Phase.EXPIRED: "expired",
}
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""No moment of a batch is later: a tenant may write any into its BatchJob, and what is kept is counted from them."""
_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_status(batchjob: RawObject) -> BatchJobStatus:
    """The status of a BatchJob. One that can't be read says nothing: a tenant may have written it."""
    try:
        return BatchJobStatus.model_validate(batchjob.get("status") or {})
    except ValidationError:
        return BatchJobStatus()


def state_of(record: BatchRecord, batchjob: RawObject) -> BatchState:
    """Where a batch stands by its BatchJob.

    A BatchJob that has ended gives a terminal state, whether or not the batch may be shown so yet: see `unpublished`.
    """
    status = read_status(batchjob)
    cancelling_at = _cancelling_at(record, batchjob, status)
    asked = cancelling_at is not None or (batchjob.get("spec") or {}).get("cancel") is True
    phase = status.phase or Phase.PENDING
    shown: Status = _ENDED[phase] if phase in TERMINAL_PHASES else "cancelling" if asked else _WORKING[phase]
    ended = phase in TERMINAL_PHASES
    return BatchState(
        status=shown,
        message=status.message or "",
        model=status.model or record.spec.get("model"),
        endpoint=record.endpoint or status.endpoint,
        counts=_counts(status),
        usage=_usage(status),
        errors=_errors(record, status) if shown == "failed" else (),
        times=_times(record, status, shown, cancelling_at),
        error_codes=status.error_codes or {},
        response_time=_response_time(status) if ended else None,
        rate=None if ended else status.rate,
        eta=None if ended else status.eta,
        fingerprint=status.fingerprint,
    )


def deleted_state(record: BatchRecord, now: datetime) -> BatchState:
    """The end of a batch whose BatchJob somebody deleted before it had ended."""
    if record.cancelling_at is not None:
        times = Times(cancelling_at=record.cancelling_at, cancelled_at=max(now, record.cancelling_at))
        return BatchState("cancelled", "Cancelled; its BatchJob was deleted.", endpoint=record.endpoint, times=times)
    message = "The BatchJob of this batch was deleted before it had ended."
    return failed_state(record, now, BatchError(DELETED, message))


def failed_state(record: BatchRecord, now: datetime, error: BatchError) -> BatchState:
    """The end of a batch that failed without a BatchJob to tell of it."""
    times = Times(failed_at=max(now, record.created_at))
    return BatchState("failed", error.message, endpoint=record.endpoint, errors=(error,), times=times)


def unpublished(state: BatchState) -> BatchState:
    """What is shown of a terminal state before what the batch published are files."""
    if not state.ended:
        return state
    times = msgspec.structs.replace(state.times, completed_at=None, failed_at=None, expired_at=None, cancelled_at=None)
    if state.status == "cancelled":
        return msgspec.structs.replace(state, status="cancelling", times=times)
    if times.finalizing_at is None:
        times = msgspec.structs.replace(times, finalizing_at=ended_at(state))
    return msgspec.structs.replace(state, status="finalizing", times=times, errors=())


def ended_at(state: BatchState) -> datetime | None:
    """When a batch ended; None while it hasn't."""
    times = state.times
    return times.completed_at or times.failed_at or times.expired_at or times.cancelled_at


def counts_of(total: int, completed: int, failed: int, error_codes: Mapping[str, int]) -> Counts:
    """As OpenAI counts: requests that never ran, since the batch was stopped, are not among the failed."""
    undone = sum(error_codes.get(code.value, 0) for code in Undone)
    completed = min(completed, total)
    return Counts(total, completed, min(max(0, failed - undone), total - completed))


def listed_errors(found: Iterable[BatchError], count: int) -> tuple[BatchError, ...]:
    """The first errors of an input and, where there are more, how many there are in all."""
    listed = tuple(found)[:LISTED_ERRORS]
    if count <= len(listed):
        return listed
    text = f"The input file has {count} errors in all; the first {len(listed)} are listed."
    return (*listed, BatchError("more_errors", text))


def batch_of(record: BatchRecord, state: BatchState) -> dict[str, Any]:
    """OpenAI's batch object: every key always, times in whole seconds. `answer` writes it."""
    ending = record.ending if state.ended else None
    times = state.times
    return {
        "id": record.id,
        "object": "batch",
        "endpoint": record.endpoint or state.endpoint,
        "model": state.model,
        "errors": _errors_object(state.errors),
        "input_file_id": record.input_file_id,
        "completion_window": record.completion_window,
        "status": state.status,
        "output_file_id": ending.output_file_id if ending else None,
        "error_file_id": ending.error_file_id if ending else None,
        "created_at": seconds(record.created_at),
        "in_progress_at": seconds(times.in_progress_at),
        "expires_at": seconds(record.expires_at),
        "finalizing_at": seconds(times.finalizing_at),
        "completed_at": seconds(times.completed_at),
        "failed_at": seconds(times.failed_at),
        "expired_at": seconds(times.expired_at),
        "cancelling_at": seconds(times.cancelling_at),
        "cancelled_at": seconds(times.cancelled_at),
        "request_counts": msgspec.structs.asdict(state.counts),
        "usage": _usage_object(state.usage),
        "metadata": record.metadata,
    }


def seconds(moment: datetime | None) -> int | None:
    """Unix time in whole seconds."""
    return None if moment is None else int(moment.timestamp())


def _errors_object(errors: tuple[BatchError, ...]) -> dict[str, Any] | None:
    return {"object": "list", "data": [msgspec.structs.asdict(error) for error in errors]} if errors else None


def _usage_object(usage: Usage) -> dict[str, Any]:
    """Always an object of numbers, as OpenAI's is: clients add them up. What no answer reported counts nothing."""
    return {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens or 0,
    }


def _counts(status: BatchJobStatus) -> Counts:
    found = status.request_counts
    return counts_of(found.total, found.completed, found.failed, status.error_codes or {}) if found else Counts()


def _usage(status: BatchJobStatus) -> Usage:
    return Usage(**status.usage.model_dump()) if status.usage else Usage()


def _response_time(status: BatchJobStatus) -> float | None:
    text = status.metrics.response_time_seconds if status.metrics else None
    try:
        seconds = float(text) if text else None
    except ValueError:
        return None
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _cancelling_at(record: BatchRecord, batchjob: RawObject, status: BatchJobStatus) -> datetime | None:
    """When its cancel was asked for here, else when a person's was."""
    if record.cancelling_at is not None:
        return record.cancelling_at
    text = ((batchjob.get("metadata") or {}).get("annotations") or {}).get(names.ANNOTATION_CANCELLING_AT)
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        moment = None
    if moment is None:
        return status.cancelling_at
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _times(record: BatchRecord, status: BatchJobStatus, shown: Status, cancelling_at: datetime | None) -> Times:
    """Each time no earlier than what came before it, though they come from the clocks of several machines."""
    begun = _not_before(record.created_at, status.in_progress_at)
    finalizing = _not_before(begun or record.created_at, status.finalizing_at)
    cancelling = _not_before(record.created_at, cancelling_at) if shown in ("cancelling", "cancelled") else None
    latest = max(moment for moment in (record.created_at, begun, finalizing, cancelling) if moment is not None)

    def end(status_name: Status, moment: datetime | None) -> datetime | None:
        return _not_before(latest, moment or latest) if shown == status_name else None

    return Times(
        in_progress_at=begun,
        finalizing_at=finalizing,
        completed_at=end("completed", status.completed_at),
        failed_at=end("failed", status.failed_at),
        expired_at=end("expired", status.expired_at),
        cancelling_at=cancelling,
        cancelled_at=end("cancelled", status.cancelled_at),
    )


def _not_before(earliest: datetime, moment: datetime | None) -> datetime | None:
    return None if moment is None else min(max(earliest, moment), LATEST)


def _errors(record: BatchRecord, status: BatchJobStatus) -> tuple[BatchError, ...]:
    condition = next((one for one in status.conditions or [] if one.type == ConditionType.FAILED), None)
    reason = condition.reason if condition else Reason.UNEXPECTED.value
    if reason == Reason.INPUT_NOT_FOUND and record.input_file_id:
        return (BatchError("invalid_request", f"Cannot find file {record.input_file_id}.", "file_id"),)
    if found := status.validation_errors:
        errors = (BatchError(error.code, error.message, error.param, error.line) for error in found)
        return listed_errors(errors, status.validation_error_count or 0)
    message = (condition.message if condition else "") or status.message or "The batch failed."
    return (BatchError(_snake_case(reason), message),)


def _snake_case(reason: str) -> str:
    return _WORD_STARTS.sub("_", reason).lower()
