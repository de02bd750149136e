"""Which requests the audit log has, and in what form."""

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchwright.gateway.identity.audit import log_audit

LINE = {
    "method": "POST",
    "route": "/v1/files",
    "status": 200,
    "seconds": 0.1,
    "request_id": "req_1",
    "user": "alice",
    "namespace": "team-a",
    "id": "file-1",
}


def logged(caplog: pytest.LogCaptureFixture, **changes: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="batchwright.gateway.audit"):
        log_audit(LINE | changes)
    return caplog.messages


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [
        ("POST", 200, True),
        ("DELETE", 200, True),
        ("PUT", 200, True),
        ("PATCH", 200, True),
        ("POST", 409, True),
        ("GET", 200, False),
        ("GET", 206, False),
        ("HEAD", 304, False),
        ("GET", 400, True),
        ("GET", 404, True),
        ("GET", 503, True),
    ],
)
def test_changes_and_failures_are_logged_and_reads_that_succeed_are_not(
    caplog: pytest.LogCaptureFixture, method: str, status: int, expected: bool
) -> None:
    assert bool(logged(caplog, method=method, status=status)) is expected


def test_a_line_is_json_with_the_time(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = logged(caplog)
    fields = json.loads(line)
    moment = datetime.fromisoformat(fields.pop("time"))
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
    assert fields == LINE


def test_a_users_name_makes_no_second_line(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = logged(caplog, user='alice"\n{"user": "root"}')
    assert "\n" not in line
    assert json.loads(line)["user"] == 'alice"\n{"user": "root"}'
