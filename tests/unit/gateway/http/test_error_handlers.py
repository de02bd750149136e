"""Every error has OpenAI's form, and says no more than a client may know."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.testclient import TestClient

from batchwright.gateway import errors
from batchwright.gateway.http.error_handlers import from_validation, install
from batchwright.gateway.http.middleware import RequestMiddleware
from batchwright.gateway.records.record_store import Unreadable
from batchwright.kube import errors as kube
from batchwright.storage import errors as storage

SECRET = "https://internal:7070/key=abc"


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    size: int = Field(0, ge=0)
    labels: dict[str, str] = {}


def problem_of(**fields: Any) -> errors.ApiError:
    """What is said of a body with these fields, as FastAPI gives its problems."""
    with pytest.raises(ValidationError) as error:
        Item.model_validate(fields)
    return from_validation([{**one, "loc": ("body", *one["loc"])} for one in error.value.errors()])


PROBLEMS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "missing": ({}, "missing_required_parameter", "name", "Missing required parameter: 'name'."),
    "another type": ({"name": 1}, "invalid_type", "name", "expected a string"),
    "another type within": ({"name": "a", "labels": {"k": 1}}, "invalid_type", "labels.k", "expected a string"),
    "no object": ({"name": "a", "labels": []}, "invalid_type", "labels", "expected an object"),
    "a number as text": ({"name": "a", "size": "1"}, "invalid_type", "size", "expected an integer"),
    "too small": ({"name": "a", "size": -1}, "invalid_value", "size", "greater than or equal to 0"),
    "unknown": ({"name": "a", "colour": "red"}, "unknown_parameter", "colour", "Unknown parameter: 'colour'."),
}


@pytest.mark.parametrize(("fields", "code", "param", "words"), PROBLEMS.values(), ids=list(PROBLEMS))
def test_a_body_that_cannot_be_names_its_field(fields: dict[str, Any], code: str, param: str, words: str) -> None:
    error = problem_of(**fields)
    assert (error.status, error.code, error.param) == (400, code, param)
    assert words in error.message


RAISED: dict[str, tuple[Exception, int, str | None, str | None]] = {
    "ours": (errors.no_such_file("file-1"), 404, None, None),
    "storage away": (storage.StorageUnavailable("GetObject", SECRET, SECRET), 503, "service_unavailable", "5"),
    "storage refuses": (storage.AccessDenied("GetObject", SECRET, SECRET), 500, "storage_error", None),
    "cluster away": (kube.Unavailable(SECRET), 503, "service_unavailable", "5"),
    "cluster refuses": (kube.Refused(SECRET, status=403), 500, "cluster_refused", None),
    "no right": (kube.Refused(f'jobs is forbidden: User "{SECRET}"', status=403), 503, "service_unavailable", "30"),
    "record damaged": (Unreadable("batch_1", SECRET, ValueError(SECRET)), 500, "record_unreadable", None),
    "unforeseen": (RuntimeError(SECRET), 500, "internal_error", None),
}


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI()
    install(app)

    @app.get("/raise/{name}")
    def fail(name: str) -> None:
        raise RAISED[name][0]

    @app.post("/items")
    def take(item: Item) -> None:
        """Take it."""

    app.add_middleware(RequestMiddleware, audit=lambda _: None)
    with TestClient(app, raise_server_exceptions=False) as started:
        yield started


@pytest.mark.parametrize("name", RAISED)
def test_what_a_handler_raises_is_an_error_in_openais_form(client: TestClient, name: str) -> None:
    _, status, code, retry_after = RAISED[name]
    answer = client.get(f"/raise/{name}")
    assert answer.status_code == status
    assert {*answer.json()["error"]} == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert answer.headers.get("retry-after") == retry_after
    assert answer.headers["x-request-id"].startswith("req_")
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("DELETE", "/items", None, 405),
        ("POST", "/items", b"{", 400),
        ("POST", "/items", b"", 400),
        ("POST", "/items", b"[]", 400),
        ("POST", "/items", b'{"name": 1}', 400),
        ("POST", "/items", b"\xff", 400),
    ],
)
def test_what_the_framework_refuses_has_the_same_form(
    client: TestClient, method: str, path: str, body: bytes | None, status: int
) -> None:
    answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert {*answer.json()} == {"error"}
    assert {*answer.json()["error"]} == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(("sent", "kept"), [("my-id.1", True), ("", False), ("a b", False), ("x" * 65, False)])
def test_a_clients_own_request_id_is_kept_where_it_is_plain(client: TestClient, sent: str, kept: bool) -> None:
    answer = client.get("/nowhere", headers={"x-request-id": sent})
    assert (answer.headers["x-request-id"] == sent) is kept
