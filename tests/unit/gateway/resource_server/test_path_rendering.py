from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest

from batchwright.batchfile.counts import Usage
from batchwright.gateway.records.batch_record import (
    BatchError,
    BatchRecord,
    BatchState,
    Counts,
    PathRequest,
    Status,
)
from batchwright.gateway.resource_server import rendering
from batchwright.gateway.resource_server.rendering import STATUSES, BatchResult, shown_time

NOW = datetime(2025, 2, 20, 18, 39, 58, 49584, tzinfo=UTC)
RECORD = BatchRecord(
    id="batch_" + "0" * 32,
    namespace="team-a",
    user="alice",
    face="paths",
    created_at=NOW,
    expires_at=NOW,
    completion_window="24h",
    endpoint=None,
    spec={},
    path_request=PathRequest("polaris", "vllm", "/data/in.jsonl", "/data/out", "/r.jsonl", "/e.jsonl", "/p.json"),
)


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("validating", "pending"),
        ("in_progress", "running"),
        ("finalizing", "running"),
        ("cancelling", "running"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "failed"),
        ("expired", "failed"),
    ],
)
def test_each_state_has_one_of_four_names(status: Status, shown: str) -> None:
    assert rendering.created(RECORD, BatchState(status)).status == shown
    assert rendering.listed(RECORD, BatchState(status)).status == shown


def test_no_state_is_without_a_name() -> None:
    assert set(STATUSES) == set(get_args(Status))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "2025-02-20 18:39:58.049584+00:00"),
        (NOW.replace(microsecond=0), "2025-02-20 18:39:58.000000+00:00"),
        (NOW.astimezone(timezone(timedelta(hours=-6))), "2025-02-20 18:39:58.049584+00:00"),
    ],
)
def test_times_are_in_utc_with_their_microseconds(moment: datetime, text: str) -> None:
    assert shown_time(moment) == text


def completed(**changes: Any) -> BatchResult:
    fields: dict[str, Any] = {
        "counts": Counts(200, 150, 50),
        "usage": Usage(total_tokens=4000),
        "response_time": 12.5,
        **changes,
    }
    found = rendering.result(RECORD, BatchState("completed", **fields))
    assert isinstance(found, BatchResult)
    return found


def test_a_completed_batch_gives_its_files_and_metrics() -> None:
    assert completed().model_dump() == {
        "results_file": "/r.jsonl",
        "progress_file": "/p.json",
        "errors_file": "/e.jsonl",
        "metrics": {
            "response_time": 12.5,
            "throughput_tokens_per_second": 320.0,
            "total_tokens": 4000,
            "num_responses": 150,
            "lines_processed": 200,
        },
    }


def test_a_file_that_was_not_written_is_null() -> None:
    assert completed(counts=Counts(200, 200, 0)).errors_file is None
    assert completed(counts=Counts(200, 0, 200)).results_file is None


def test_what_no_server_told_counts_as_nothing() -> None:
    metrics = completed(usage=Usage(), response_time=None).metrics
    assert (metrics.total_tokens, metrics.throughput_tokens_per_second, metrics.response_time) == (0, 0.0, 0.0)


@pytest.mark.parametrize("status", ["validating", "in_progress", "finalizing", "cancelling"])
def test_a_batch_that_has_not_ended_has_no_result(status: Status) -> None:
    assert rendering.result(RECORD, BatchState(status)) is None


LINES = (BatchError("mismatched_model", "The model must be 'm'.", "body.model", 3), BatchError("more_errors", "Many."))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (BatchState("failed", "The server is gone."), "The batch failed: The server is gone."),
        (BatchState("failed", errors=LINES), "The batch failed: line 3: The model must be 'm'. Many."),
        (BatchState("failed"), "The batch failed: it says no more."),
        (BatchState("cancelled", "Stopped."), "The batch was cancelled: Stopped."),
        (BatchState("expired", "Too late"), "The batch has expired: Too late."),
        (
            BatchState("cancelled", "Stopped.", counts=Counts(200, 20, 0)),
            "The batch was cancelled: Stopped. 20 of 200 lines were answered; they are in /r.jsonl.",
        ),
    ],
)
def test_the_result_of_a_batch_that_failed_says_which_way_and_why(state: BatchState, message: str) -> None:
    assert rendering.result(RECORD, state) == message


def test_of_many_errors_the_first_ones_are_told() -> None:
    errors = tuple(BatchError("invalid_json_line", "Not JSON.", None, line) for line in range(1, 101))
    found = rendering.result(RECORD, BatchState("failed", errors=errors))
    assert isinstance(found, str)
    assert found.count("Not JSON.") == 10
