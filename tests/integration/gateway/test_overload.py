"""More connections than the gateway serves at once: what each kind of client is told, and that it passes."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from batchwright.gateway import serving
from fixtures.cluster import eventually
from fixtures.files_service import RawUpload
from fixtures.gateway import ALICE, Audited, bearer, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.page_client import OWN, signed_in

MOST = 3


@pytest.fixture
def audited() -> Audited:
    return Audited()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Audited) -> Iterator[str]:
    monkeypatch.setattr(serving, "CONNECTIONS", MOST)
    (tmp_path / "data").mkdir()
    with HttpApi() as api, running_gateway(gateway_on(f"file://{tmp_path}/data/", api, tmp_path), audited) as url:
        yield url


@pytest.fixture
def others(url: str) -> Iterator[ExitStack]:
    """As many connections as are allowed, all of them idle; closed with the stack."""
    place = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(MOST):
            connection = stack.enter_context(socket.create_connection((place.hostname, place.port)))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        yield stack


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/models", "/resource_server/v1/batches"])
def test_a_program_is_told_in_openais_form_to_come_again(url: str, path: str, audited: Audited) -> None:
    answer = httpx.get(f"{url}{path}", headers=bearer(ALICE))
    assert answer.status_code == 503
    assert answer.json() == {
        "error": {
            "message": "The gateway has more connections than it serves at once. Try again.",
            "type": "server_error",
            "param": None,
            "code": "service_unavailable",
        }
    }
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["connection"] == "close"
    assert [(line["route"], line["status"]) for line in audited.lines if line["status"] == 503] == [(path, 503)]
    assert audited.lines[-1]["request_id"] == answer.headers["x-request-id"]


@pytest.mark.usefixtures("others")
def test_the_sdk_knows_the_error(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=ALICE.user, max_retries=0)
    with pytest.raises(openai.InternalServerError) as told:
        client.batches.list()
    assert told.value.code == "service_unavailable"


@pytest.mark.usefixtures("others")
def test_people_are_told_by_a_page(url: str) -> None:
    with signed_in(url) as client:
        for answer in (client.get("/ui/"), client.get("/ui/sign-in"), client.post("/ui/sign-out", headers=OWN)):
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["retry-after"] == "5"
            assert "more connections than it serves at once" in answer.text
        style = answer.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert client.get(style).status_code == 200


@pytest.mark.usefixtures("others")
def test_who_reads_no_answer_before_all_is_sent_reads_it_then(url: str) -> None:
    pieces = [b"x" * 100_000] * 80
    with closing(RawUpload(url, length=sum(map(len, pieces)))) as upload:
        upload.send_all(pieces)
        status, answer = upload.answer()
    assert (status, json.loads(answer)["error"]["code"]) == (503, "service_unavailable")


@pytest.mark.usefixtures("others")
def test_probes_are_answered_all_the_same(url: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert httpx.get(f"{url}{path}").text == "ok"
    assert "batchwright_gateway_requests_total" in httpx.get(f"{url}/metrics").text


def test_it_passes(url: str, others: ExitStack) -> None:
    assert httpx.get(f"{url}/v1/files", headers=bearer(ALICE)).status_code == 503
    others.close()

    def served() -> None:
        assert httpx.get(f"{url}/v1/files", headers=bearer(ALICE)).status_code == 200

    eventually(served)


def test_as_many_as_are_allowed_are_served(url: str) -> None:
    with ExitStack() as stack:
        for _ in range(MOST):
            client = stack.enter_context(httpx.Client(base_url=url, headers=bearer(ALICE)))
            assert client.get("/v1/files").status_code == 200
