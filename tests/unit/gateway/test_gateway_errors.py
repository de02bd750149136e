"""What errors say to clients."""

import pytest

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError

MADE: dict[str, tuple[ApiError, int, str | None, str | None]] = {
    "key": (errors.invalid_api_key(), 401, "invalid_api_key", None),
    "forbidden": (errors.forbidden("no"), 403, "permission_denied", None),
    "file": (errors.no_such_file("file-1"), 404, None, "id"),
    "batch": (errors.no_such_batch("batch_1"), 404, None, "batch_id"),
    "missing": (errors.missing_parameter("endpoint"), 400, "missing_required_parameter", "endpoint"),
    "type": (errors.invalid_type("metadata", "an object"), 400, "invalid_type", "metadata"),
    "value": (errors.invalid_value("limit", "too many"), 400, "invalid_value", "limit"),
    "choice": (errors.not_one_of("order", "up", ("asc", "desc")), 400, "invalid_value", "order"),
    "large": (errors.too_large("at most 1 byte", "file"), 413, "request_too_large", "file"),
    "conflict": (errors.conflict("ended"), 409, None, None),
    "rate": (errors.too_many_requests("slowly", 2), 429, "rate_limit_exceeded", None),
    "away": (errors.unavailable("later"), 503, "service_unavailable", None),
}


@pytest.mark.parametrize(("error", "status", "code", "param"), MADE.values(), ids=list(MADE))
def test_an_error_has_all_four_keys(error: ApiError, status: int, code: str | None, param: str | None) -> None:
    assert error.status == status
    assert {*error.body()["error"]} == {"message", "type", "param", "code"}
    assert error.body()["error"]["code"] == code
    assert error.body()["error"]["param"] == param
    assert error.body()["error"]["message"]


def test_the_texts_are_those_that_clients_know() -> None:
    assert errors.no_such_file("file-1").message == "No such File object: file-1"
    assert errors.no_such_batch("batch_1").message == "No batch found with id 'batch_1'."


def test_a_choice_lists_what_is_supported() -> None:
    assert "Supported values are: 'asc', 'desc'." in errors.not_one_of("order", "up", ("asc", "desc")).message


def test_a_conflict_is_not_tried_again_by_clients() -> None:
    assert errors.conflict("ended").headers == {"x-should-retry": "false"}


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.4, "1"), (7.0, "7")])
def test_come_again_in_whole_seconds_at_least_one(seconds: float, header: str) -> None:
    assert errors.too_many_requests("slowly", seconds).headers["retry-after"] == header
    assert errors.unavailable("later", seconds).headers["retry-after"] == header


@pytest.mark.parametrize(
    ("sent", "shown"),
    [("file-1", "file-1"), ("a\r\nb", "a\\r\\nb"), ("\x1b[31m", "\\x1b[31m"), ("x" * 101, "x" * 100 + "…")],
)
def test_an_id_is_repeated_without_what_could_do_harm(sent: str, shown: str) -> None:
    assert shown in errors.no_such_file(sent).message
    assert errors.no_such_file(sent).message.isprintable()
