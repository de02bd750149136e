"""`/v1/models` on real sockets, with a real model server of the tests behind it, and with ones that fail."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from batchwright.gateway.catalogue import Catalogue
from fixtures.gateway import ADMIN, ALICE, bearer, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi

CATALOGUE = Catalogue.model_validate(
    {
        "models": [
            {"model": "meta/llama", "cluster": "polaris", "server": {"url": "http://a:8000"}},
            {"model": "meta/llama", "cluster": "sophia", "server": {"url": "http://b:8000"}, "batch": False},
            {
                "model": "shy",
                "cluster": "sophia",
                "framework": "sglang",
                "server": {"url": "http://c:8000"},
                "endpoints": ["/v1/embeddings"],
                "batch": False,
            },
        ]
    }
)


@contextmanager
def gateway_with(tmp_path: Path, catalogue: Catalogue | None = None, **settings: Any) -> Iterator[httpx.Client]:
    with HttpApi() as api:
        gateway = gateway_on(f"file://{tmp_path}/batches/", api, tmp_path, catalogue=lambda: catalogue, **settings)
        with (
            running_gateway(gateway) as url,
            httpx.Client(base_url=url, headers=bearer(ALICE), timeout=30, trust_env=False) as client,
        ):
            yield client


class ModelServer:
    """Answers every request with the same bytes."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        seen: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.seen = seen
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ModelServer":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def error_of(answer: httpx.Response) -> tuple[int, str | None, str]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return answer.status_code, body["error"]["code"], body["error"]["message"]


def test_a_catalogue_is_listed_with_each_model_once_and_its_places(tmp_path: Path) -> None:
    with gateway_with(tmp_path, CATALOGUE, defaultServer={"url": "http://127.0.0.1:9"}) as client:
        listed = client.get("/v1/models").json()
        assert client.get("/v1/models/").json() == listed
    assert listed["object"] == "list"
    llama, shy = listed["data"]
    assert (llama["id"], llama["object"], llama["owned_by"], llama["batch"]) == ("meta/llama", "model", "vllm", True)
    assert [(place["cluster"], place["batch"]) for place in llama["places"]] == [("polaris", True), ("sophia", False)]
    assert (shy["batch"], shy["places"][0]["endpoints"]) == (False, ["/v1/embeddings"])


@pytest.mark.parametrize("path", ["meta/llama", "meta%2Fllama"])
def test_a_model_with_a_slash_in_its_name_is_found(tmp_path: Path, path: str) -> None:
    with gateway_with(tmp_path, CATALOGUE) as client:
        assert client.get(f"/v1/models/{path}").json()["id"] == "meta/llama"


def test_an_unknown_model_is_not_found(tmp_path: Path) -> None:
    with gateway_with(tmp_path, CATALOGUE) as client:
        status, code, message = error_of(client.get("/v1/models/gpt"))
    assert (status, code, message) == (404, "model_not_found", "The model 'gpt' does not exist.")


def test_the_official_client_lists_and_retrieves(tmp_path: Path) -> None:
    with gateway_with(tmp_path, CATALOGUE) as client:
        openai = OpenAI(base_url=f"{client.base_url}/v1", api_key=ALICE.user, max_retries=0)
        assert [model.id for model in openai.models.list()] == ["meta/llama", "shy"]
        assert openai.models.retrieve("meta/llama").owned_by == "vllm"


def test_without_a_key_nothing_is_listed(tmp_path: Path) -> None:
    with gateway_with(tmp_path, CATALOGUE) as client:
        assert error_of(client.get("/v1/models", headers={"authorization": ""}))[:2] == (401, "invalid_api_key")


def test_without_a_catalogue_the_servers_own_list_passes_through(tmp_path: Path) -> None:
    body = b'{"object":"list","data":[{"id":"a/b","created":7,"owned_by":"vllm","max_model_len":4096},{"id":"c"}]}'
    with ModelServer(200, body) as server:
        default = {"url": f"{server.url}/", "headers": {"X-Route": "batch"}}
        with gateway_with(tmp_path, defaultServer=default) as client:
            listed = client.get("/v1/models").json()
            assert client.get("/v1/models/a/b").json() == listed["data"][0]
            assert client.get("/v1/models/none").status_code == 404
    assert listed["data"] == [
        {"id": "a/b", "object": "model", "created": 7, "owned_by": "vllm", "max_model_len": 4096},
        {"id": "c", "object": "model", "created": 0, "owned_by": ""},
    ]
    path, headers = server.seen[0]
    assert (path, headers["x-route"]) == ("/v1/models", "batch")
    assert "authorization" not in headers, "the gateway's key is nothing for the model server"


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (401, b"{}", {}, (502, "bad_gateway", "wants an API key for its list, which only workers have")),
        (500, b"{}", {}, (502, "bad_gateway", "answered 500")),
        (307, b"", {"Location": "http://169.254.169.254/"}, (502, "bad_gateway", "answered 307")),
        (200, b"<html>", {}, (502, "bad_gateway", "no list of models")),
        (200, b'{"data":[{"created":NaN,"id":"x"}]}', {}, (502, "bad_gateway", "no list of models")),
        (200, b'{"data":[{"created":1}]}', {}, (502, "bad_gateway", "no list of models")),
        (200, b'{"data":[3]}', {}, (502, "bad_gateway", "no list of models")),
        (200, b'{"data":null}', {}, (502, "bad_gateway", "no list of models")),
        (200, b"[" * 100_000, {}, (502, "bad_gateway", "no list of models")),
        (200, b"\xff", {}, (502, "bad_gateway", "no list of models")),
        (200, b" " * ((1 << 20) + 1), {}, (502, "bad_gateway", "more than 1048576 bytes")),
        (200, b"{}", {"Content-Encoding": "gzip"}, (502, "bad_gateway", "broken encoding")),
        (503, b"", {}, (503, "service_unavailable", "busy or starting")),
        (200, b"", {"Content-Length": "99"}, (503, "service_unavailable", "can't be reached")),
    ],
)
def test_a_server_that_gives_no_list_is_an_error_in_openais_form(
    tmp_path: Path, status: int, body: bytes, headers: dict[str, str], expected: tuple[int, str, str]
) -> None:
    with (
        ModelServer(status, body, **headers) as server,
        gateway_with(tmp_path, defaultServer={"url": server.url}) as client,
    ):
        answered = error_of(client.get("/v1/models"))
    assert answered[:2] == expected[:2]
    assert expected[2] in answered[2]


def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with gateway_with(tmp_path, defaultServer={"url": "http://127.0.0.1:9"}) as client:
        answer = client.get("/v1/models")
    assert error_of(answer)[:2] == (503, "service_unavailable")
    assert answer.headers["retry-after"] == "5"


def test_where_nobody_knows_the_models_a_404_says_so(tmp_path: Path) -> None:
    with gateway_with(tmp_path) as client:
        status, code, message = error_of(client.get("/v1/models"))
    assert (status, code) == (404, "no_model_list")
    assert "catalogue" in message


def test_a_service_is_looked_for_in_the_askers_namespace(tmp_path: Path) -> None:
    with gateway_with(tmp_path, defaultServer={"service": {"name": "vllm"}}) as client:
        status, code, message = error_of(client.get("/v1/models", headers=bearer(ADMIN)))
        assert (status, code) == (400, "missing_required_parameter")
        assert "OpenAI-Project" in message
