"""What clients ask of a server beside inference: models, metrics, health, version, and routes that aren't there."""

import re
from typing import Any

import httpx
import pytest

from vllm.flags import ADAPTER, MODEL
from vllm.shapes.both import Both, Case, named

SAMPLE = re.compile(r"^(?P<name>vllm:\w+?)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

CASES: dict[str, Case] = {
    "an unknown route": Case(None, "/v1/nothing", "GET"),
    "an unknown route outside of v1": Case(None, "/nothing", "GET"),
    "an unknown route that is posted to": Case({}, "/v1/nothing", "POST"),
    "models are only listed": Case({}, "/v1/models", "POST"),
    "health is only asked": Case({}, "/health", "POST"),
    "version": Case(None, "/version", "GET"),
}


@pytest.mark.parametrize("name", named(CASES))
def test_an_answer(both: Both, name: str) -> None:
    both.ask(CASES[name]).assert_alike(CASES[name].meant)


@pytest.mark.vllm_short
def test_the_models(both: Both) -> None:
    pair = both.ask(Case(None, "/v1/models", "GET"))
    real = pair.real.body
    assert [model["id"] for model in real["data"]] == [MODEL, ADAPTER]
    real["data"] = [model for model in real["data"] if model["parent"] is None]  # the stub serves no adapters
    pair.assert_alike({})
    assert [model["max_model_len"] for model in pair.stub.body["data"]] == [real["data"][0]["max_model_len"]]


@pytest.mark.vllm_short
def test_health(both: Both) -> None:
    pair = both.ask(Case(None, "/health", "GET"))
    assert (pair.stub.status, pair.stub.text) == (pair.real.status, pair.real.text) == (200, "")
    assert pair.stub.headers == pair.real.headers


@pytest.mark.vllm_short
@pytest.mark.parametrize("given", ["mine", None])
def test_a_request_id_comes_back(both: Both, given: str | None) -> None:
    headers: dict[str, Any] = {} if given is None else {"X-Request-Id": given}
    for client in (both.real, both.stub):
        answer = client.get("/v1/models", headers=headers)
        assert re.fullmatch(given or "[0-9a-f]{32}", answer.headers["X-Request-Id"])


@pytest.mark.vllm_short
def test_every_metric_of_the_stub_is_one_of_the_real_server_with_its_labels(both: Both) -> None:
    real, stub = (_metrics(client) for client in (both.real, both.stub))
    assert stub.keys() <= real.keys()
    assert {name: real[name] for name in stub} == stub


@pytest.mark.vllm_short
def test_metrics_have_the_media_type_that_scrapers_know(both: Both) -> None:
    types = [client.get("/metrics").headers["Content-Type"] for client in (both.real, both.stub)]
    assert types[0] == types[1]


def _metrics(client: httpx.Client) -> dict[str, tuple[str, set[str]]]:
    """By name: the type, and the names of labels, with the values of those that a stub can know."""
    text = client.get("/metrics").text
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    found: dict[str, tuple[str, set[str]]] = {}
    for sample in SAMPLE.finditer(text):
        labels = {f"{label}={value}" for label, value in LABEL.findall(sample["labels"] or "")}
        found.setdefault(sample["name"], (types.get(sample["name"], "part"), set()))[1].update(labels)
    return found


@pytest.mark.vllm_short
def test_a_stream_is_refused_by_the_stub_alone(both: Both) -> None:
    """No batch may ask for one: a request that gets there is a mistake of the sender, and is to be seen."""
    body = {"model": MODEL, "stream": True, "max_tokens": 2, "messages": [{"role": "user", "content": "Hello."}]}
    pair = both.ask(Case(body, "/v1/chat/completions"))
    assert (pair.real.status, pair.real.media_type) == (200, "text/event-stream")
    assert (pair.stub.status, pair.stub.media_type) == (400, "application/json")
