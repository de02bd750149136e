"""The status: what is written is what is read, and nothing that comes from elsewhere can keep it from being written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.status import BatchJobStatus, Condition, Usage

NOON = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def condition(**changes: object) -> Condition:
    fields = {
        "type": ConditionType.FAILED,
        "status": "True",
        "observed_generation": 1,
        "last_transition_time": NOON,
        "reason": Reason.INVALID_INPUT,
        "message": "Line 3 is not JSON.",
    }
    return Condition.model_validate(fields | changes)


def test_times_are_written_as_kubernetes_writes_them() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=5, minutes=30))) + timedelta(microseconds=999_999)
    dumped = BatchJobStatus(created_at=east).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped == {"createdAt": "2026-11-29T12:00:00Z"}


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        BatchJobStatus(created_at=datetime(2026, 11, 29, 12))  # noqa: DTZ001


def test_what_is_written_is_what_is_read() -> None:
    """The operator compares the two to write only changes."""
    status = BatchJobStatus(
        phase=Phase.FAILED,
        observed_generation=2,
        conditions=[condition()],
        usage=Usage(input_tokens=0),
        finish_reasons={"stop": 2},
        failed_at=NOON + timedelta(microseconds=1),
    )
    written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert BatchJobStatus.model_validate(written) == status


def test_an_unknown_count_of_tokens_is_not_zero() -> None:
    assert Usage(input_tokens=0).model_dump(by_alias=True, exclude_none=True) == {"inputTokens": 0}


def test_a_status_of_a_newer_operator_is_read() -> None:
    assert BatchJobStatus.model_validate({"phase": "failed", "invented": 1}).phase is Phase.FAILED


def test_a_message_of_any_length_can_be_written() -> None:
    assert len(condition(message="x" * 100_000).message) == 2048


@pytest.mark.parametrize("reason", ["", "two words", "1st", "Ends:"])
def test_a_reason_is_one_word(reason: str) -> None:
    with pytest.raises(ValidationError):
        condition(reason=reason)


def test_uris_are_capitalized_on_the_wire() -> None:
    status = BatchJobStatus(validation_errors_uri="s3://b1/e", plan_uri="s3://b1/p")
    assert status.model_dump(by_alias=True, exclude_none=True) == {
        "validationErrorsURI": "s3://b1/e",
        "planURI": "s3://b1/p",
    }
