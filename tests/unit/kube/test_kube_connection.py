"""Calls over real HTTP to a server that answers as an API server does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from batchwright.kube import errors
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.connection import Connection, path_of


class _Handler(BaseHTTPRequestHandler):
    """Answers with what the test put down, and keeps what it was sent."""

    answers: ClassVar[list[tuple[int, Any]]] = []
    requests: ClassVar[list[dict[str, Any]]] = []

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        self.requests.append(
            {
                "method": self.command,
                "path": parts.path,
                "query": parse_qs(parts.query),
                "type": self.headers.get("Content-Type"),
                "authorization": self.headers.get("Authorization"),
                "body": json.loads(body) if body else None,
            }
        )
        status, answer = self.answers.pop(0)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    _Handler.answers, _Handler.requests = [], []
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def connection(server: HTTPServer) -> Iterator[Connection]:
    configuration = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    configuration.api_key["BearerToken"] = "bearer first"
    api_client = client.ApiClient(configuration)
    yield Connection(api_client)
    api_client.rest_client.pool_manager.clear()


def status(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "reason": reason, "message": message, "code": code}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (status(404, "NotFound", "jobs x not found"), errors.NotFound, "jobs x not found"),
        (status(409, "AlreadyExists", "exists"), errors.AlreadyExists, "exists"),
        (status(409, "Conflict", "the object has been modified"), errors.Conflict, "modified"),
        (status(403, "Forbidden", "exceeded quota"), errors.Refused, "exceeded quota"),
        (status(422, "Invalid", "spec.x: wrong"), errors.Refused, "spec.x: wrong"),
        (status(410, "Expired", "the list is too old"), errors.Unavailable, "too old"),
        (status(429, "TooManyRequests", "slow down"), errors.Unavailable, "slow down"),
        (status(500, "InternalError", "failed calling webhook"), errors.Unavailable, "webhook"),
        ((502, b"<html>bad gateway</html>"), errors.Unavailable, "bad gateway"),
    ],
)
def test_a_refusal_is_an_exception_with_the_servers_message(
    connection: Connection, answer: tuple[int, Any], error: type[errors.KubernetesError], message: str
) -> None:
    _Handler.answers = [answer]
    with pytest.raises(error, match=message) as caught:
        connection.create("/api/v1/namespaces/demo/pods", {})
    assert type(caught.value) is error
    assert caught.value.status == answer[0]


def test_a_server_that_is_not_there_is_unavailable() -> None:
    configuration = client.Configuration(host="http://127.0.0.1:9")
    configuration.retries = False
    with pytest.raises(errors.Unavailable, match="no answer"):
        Connection(client.ApiClient(configuration)).get("/api")


def test_a_list_is_read_page_by_page(connection: Connection) -> None:
    pages = [{"items": [{"n": 1}], "metadata": {"continue": "next"}}, {"items": [{"n": 2}], "metadata": {}}]
    _Handler.answers = [(200, page) for page in pages]
    items = connection.list("/api/v1/pods", {"labelSelector": "a=b,c"})
    assert items == [{"n": 1}, {"n": 2}]
    first, second = (request["query"] for request in _Handler.requests)
    assert first == {"labelSelector": ["a=b,c"], "limit": ["500"]}
    assert second["continue"] == ["next"]


def test_a_list_that_the_server_has_forgotten_is_read_from_the_beginning(connection: Connection) -> None:
    first = (200, {"items": [{"n": 1}], "metadata": {"continue": "next"}})
    forgotten = status(410, "Expired", "the continue parameter is too old")
    _Handler.answers = [first, forgotten, first, (200, {"items": [{"n": 2}]})]
    assert connection.list("/api/v1/pods") == [{"n": 1}, {"n": 2}]
    assert ["continue" in request["query"] for request in _Handler.requests] == [False, True, False, True]
    _Handler.answers = [forgotten] * 3
    with pytest.raises(errors.Unavailable, match="too old"):
        connection.list("/api/v1/pods")


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"", b'{"items": ['])
def test_an_answer_that_is_no_object_may_be_another_a_moment_later(connection: Connection, content: bytes) -> None:
    _Handler.answers = [(200, content)]
    with pytest.raises(errors.Unavailable, match="proxy in between"):
        connection.get("/api/v1/pods")


def test_an_answer_that_is_nested_too_deeply_is_told_as_such(connection: Connection) -> None:
    """A part of a BatchJob's pods has no schema: whoever may make one can nest it thousands of times."""
    _Handler.answers = [(200, b'{"items":' * 5000 + b"{}" + b"}" * 5000)]
    with pytest.raises(errors.Unavailable, match="nested too deeply"):
        connection.get("/api/v1/pods")


@pytest.mark.parametrize(
    ("error", "creating", "editing"),
    [
        (errors.Refused("exceeded quota", status=403), True, True),
        (errors.Refused("spec.x: wrong", status=422), True, True),
        (errors.Unavailable("failed calling webhook", status=500), True, True),
        (errors.NotFound("no such namespace", status=404), True, False),
        (errors.Refused("Unauthorized", status=401), False, False),
        (errors.Conflict("another UID", status=409), False, False),
        (errors.Unavailable("slow down", status=429), False, False),
        (errors.Unavailable("no service", status=503), False, False),
        (errors.Unavailable("no answer"), False, False),
    ],
    ids=str,
)
def test_what_is_for_a_person_to_read(error: errors.KubernetesError, creating: bool, editing: bool) -> None:
    assert errors.is_verdict(error, creating=True) is creating
    assert errors.is_verdict(error, creating=False) is editing


@pytest.mark.parametrize(
    ("status_code", "message", "lacks"),
    [
        (403, 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods"', True),
        (403, 'pods "x" is forbidden: User "system:serviceaccount:a:b" cannot get resource "pods"', True),
        (403, 'pods "x" is forbidden: exceeded quota: q', False),
        (403, 'admission webhook "w" denied the request: no', False),
        (422, 'pods is forbidden: User "x" cannot', False),
    ],
)
def test_a_missing_right_is_told_from_what_admission_says(status_code: int, message: str, lacks: bool) -> None:
    assert errors.lacks_right(errors.error_of(status_code, message)) is lacks


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), (None, None), ("Mon, 30 Nov 2026 00:00:00 GMT", None)])
def test_how_long_to_leave_the_server_alone(header: str | None, seconds: float | None) -> None:
    assert errors.error_of(429, b"", header).retry_after == seconds


def test_a_status_is_patched_only_on_the_very_object_as_it_was_read(connection: Connection) -> None:
    _Handler.answers = [(200, {})]
    BatchJobs(connection).patch_status("demo", "nightly", "uid-1", "7", {"phase": "failed", "eta": None})
    (request,) = _Handler.requests
    assert (request["method"], request["path"]) == (
        "PATCH",
        "/apis/batchwright.dev/v1alpha1/namespaces/demo/batchjobs/nightly/status",
    )
    assert request["type"] == "application/merge-patch+json"
    metadata = {"uid": "uid-1", "resourceVersion": "7"}
    assert request["body"] == {"metadata": metadata, "status": {"phase": "failed", "eta": None}}


def test_a_deletion_takes_the_children_along_in_the_background(connection: Connection) -> None:
    _Handler.answers = [(200, {})]
    BatchJobs(connection).delete("demo", "nightly", "uid-1")
    (request,) = _Handler.requests
    assert request["body"]["propagationPolicy"] == "Background"
    assert request["body"]["preconditions"] == {"uid": "uid-1"}


def test_a_token_that_was_renewed_is_sent(server: HTTPServer) -> None:
    tokens = iter(["bearer first", "bearer second"])
    configuration = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    configuration.api_key["BearerToken"] = "none yet"

    def renew(configuration: client.Configuration) -> None:
        configuration.api_key["BearerToken"] = next(tokens)

    configuration.refresh_api_key_hook = renew
    api_client = client.ApiClient(configuration)
    connection = Connection(api_client)
    _Handler.answers = [(200, {}), (200, {})]
    connection.get("/api")
    connection.get("/api")
    api_client.rest_client.pool_manager.clear()
    assert [request["authorization"] for request in _Handler.requests] == ["bearer first", "bearer second"]


def test_a_write_that_may_not_be_sent_is_not_sent_and_reads_are(server: HTTPServer) -> None:
    def refuse() -> None:
        raise errors.Unavailable("not now")

    api_client = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{server.server_port}"))
    connection = Connection(api_client, before_write=refuse)
    _Handler.answers = [(200, {})]
    connection.get("/api")
    for write in (connection.create, connection.patch):
        with pytest.raises(errors.Unavailable, match="not now"):
            write("/api/v1/namespaces/demo/pods", {})
    with pytest.raises(errors.Unavailable, match="not now"):
        connection.delete("/api/v1/namespaces/demo/pods/x")
    assert [request["method"] for request in _Handler.requests] == ["GET"]
    api_client.rest_client.pool_manager.clear()


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("v1", "pods", "demo"), "/api/v1/namespaces/demo/pods"),
        (("v1", "nodes", None, "node-1"), "/api/v1/nodes/node-1"),
        (("batch/v1", "jobs", "demo", "a/b"), "/apis/batch/v1/namespaces/demo/jobs/a%2Fb"),
    ],
)
def test_paths(arguments: tuple[Any, ...], path: str) -> None:
    assert path_of(*arguments) == path
