"""A batch as the page shows it."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from batchwright.batchfile.counts import Usage
from batchwright.gateway.page.batch_view import LABELS, TONES, BatchView
from batchwright.gateway.records.batch_record import (
    TERMINAL,
    BatchRecord,
    BatchState,
    Counts,
    Ending,
    Face,
    PathRequest,
    Published,
    Status,
    Times,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def view(
    status: Status = "in_progress",
    *,
    total: int = 0,
    completed: int = 0,
    failed: int = 0,
    face: Face = "openai",
    **state: Any,
) -> BatchView:
    ending = state.pop("ending", None)
    shown = BatchState(status=status, counts=Counts(total, completed, failed), **state)
    record = BatchRecord(
        id="batch_" + "0" * 32,
        namespace="team-a",
        user="alice",
        face=face,
        created_at=NOON,
        expires_at=NOON + timedelta(hours=24),
        completion_window="24h",
        endpoint=None,
        spec={},
        ending=Ending(shown, **ending) if ending is not None else None,
        path_request=PathRequest("c", "f", "i", "o", "r", "e", "p") if face == "paths" else None,
    )
    return BatchView(record, shown, "a.jsonl", NOON)


def test_every_status_has_words_and_a_tone() -> None:
    assert set(LABELS) == set(TONES) == set(get_args(Status))


@pytest.mark.parametrize("status", get_args(Status))
def test_what_has_ended_is_neither_live_nor_cancellable(status: Status) -> None:
    shown = view(status)
    assert shown.live == (status not in TERMINAL)
    assert shown.cancellable == (status not in TERMINAL and status != "cancelling")


@pytest.mark.parametrize(
    ("total", "completed", "failed", "percent", "bar"),
    [
        (0, 0, 0, 0, (0.0, 0.0)),
        (1000, 999, 0, 99, (99.9, 0.0)),  # all but one is not all
        (1000, 990, 10, 100, (99.0, 1.0)),
        (3, 1, 1, 66, (33.333, 33.333)),
        (10, 12, 5, 100, (100.0, 0.0)),  # counts that a tenant wrote
    ],
)
def test_progress_in_percent(total: int, completed: int, failed: int, percent: int, bar: tuple[float, float]) -> None:
    shown = view(total=total, completed=completed, failed=failed)
    assert shown.percent == percent
    assert (shown.bar.completed, shown.bar.failed) == pytest.approx(bar)
    assert shown.bar.failed_from == shown.bar.completed


def test_what_is_read_out_changes_with_every_tenth_alone() -> None:
    said = {view(total=1000, completed=done).announcement for done in range(0, 1001, 7)}
    assert len(said) == 10
    assert "a.jsonl: in progress, 40 percent done" in said
    assert view("completed", total=10, completed=10).announcement == "a.jsonl: completed"


@pytest.mark.parametrize(("eta", "shown"), [(None, None), ("29s", "29 s"), ("1h12m", "1 h 12 min"), ("soon", "soon")])
def test_the_time_left(eta: str | None, shown: str | None) -> None:
    assert view(eta=eta).eta == shown


def test_failures_are_sorted_and_measured_by_the_most_frequent() -> None:
    codes = {"400": 5, "request_timeout": 20, "odd_thing": 5}
    found = [(one.code, one.number, one.share, bool(one.meaning)) for one in view(error_codes=codes).failures]
    assert found == [("request_timeout", 20, 100.0, True), ("400", 5, 25.0, True), ("odd_thing", 5, 25.0, False)]


def test_requests_that_never_ran_come_last_and_are_measured_by_nothing() -> None:
    codes = {"batch_cancelled": 900, "400": 5, "500": 10}
    found = [(one.code, one.share) for one in view("cancelled", error_codes=codes).failures]
    assert found == [("500", 100.0), ("400", 50.0), ("batch_cancelled", None)]


@pytest.mark.parametrize(
    ("status", "total", "never_ran"),
    [("cancelled", 1000, 600), ("expired", 400, 0), ("failed", 0, 0), ("cancelled", 10, 0), ("in_progress", 1000, 0)],
)
def test_requests_that_never_ran(status: Status, total: int, never_ran: int) -> None:
    assert view(status, total=total, completed=350, failed=50).never_ran == never_ran


def test_tokens_that_nobody_counted_are_left_out() -> None:
    assert view(usage=Usage(input_tokens=1200, total_tokens=0)).usage == [("Input", "1,200"), ("Total", "0")]


@pytest.mark.parametrize(
    ("face", "ending", "retry_bytes", "names", "retryable"),
    [
        ("openai", None, 10, [], False),
        ("openai", {}, None, [], False),
        ("openai", {"output_file_id": "file-a"}, None, ["Results"], False),
        ("openai", {"output_file_id": "file-a", "error_file_id": "file-b"}, 10, ["Results", "Errors"], True),
        ("paths", {}, 10, [], False),
    ],
)
def test_what_can_be_fetched_and_tried_again(
    face: Face, ending: dict[str, str] | None, retry_bytes: int | None, names: list[str], retryable: bool
) -> None:
    shown = view("completed", face=face, ending=ending, published=Published(7, 8, retry_bytes))
    assert [one.name for one in shown.downloads] == names
    assert shown.retryable == retryable


def test_what_happened_is_in_order() -> None:
    times = Times(
        in_progress_at=NOON + timedelta(seconds=5),
        cancelling_at=NOON + timedelta(seconds=20),
        cancelled_at=NOON + timedelta(seconds=30),
        finalizing_at=NOON + timedelta(seconds=25),
    )
    assert [name for name, _ in view("cancelled", times=times).moments] == [
        "Created",
        "Started",
        "Cancelling",
        "Finalizing",
        "Cancelled",
    ]
