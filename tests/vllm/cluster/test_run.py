"""A BatchJob from `kubectl apply` to its results, against a real vLLM."""

from typing import Any

from e2e.quickstart import Quickstart
from vllm.cluster.model_server import EMBEDDING_URL, URL, ModelServer
from vllm.cluster.request_lines import assert_whole, cached_tokens, chat_line
from vllm.flags import ADAPTER, EMBEDDING_MODEL

LINES = 300
COMMON_BEGINNING = " ".join(f"Rule {number}: say nothing twice." for number in range(24))


def test_every_line_is_answered_and_its_usage_counted(batches: Quickstart, model_server: ModelServer) -> None:
    name = batches.name("vllm")
    lines = [chat_line(f"{name}-{number}", f"{name} {COMMON_BEGINNING} {number}", tokens=8) for number in range(LINES)]
    batches.apply(name, batches.put(f"in/{name}.jsonl", lines), server={"url": URL}, sharding={"linesPerShard": 100})
    results = assert_whole(batches, name, lines)
    # All but the first few of each worker find the beginning in the prefix cache.
    assert sum(cached_tokens(line) > 0 for line in results) > LINES * 0.9
    status = batches.get(name)["status"]
    assert status["model"] == "tiny"
    assert status["finishReasons"] == {"length": LINES}
    assert status["progress"] == f"{LINES}/{LINES}"


def test_an_adapter_answers_other_than_its_base_model(batches: Quickstart, model_server: ModelServer) -> None:
    base, adapted = (_answers(batches, model) for model in ("tiny", ADAPTER))
    assert len(base) == len(adapted)
    assert all(one != other for one, other in zip(base, adapted, strict=True))


def _answers(batches: Quickstart, model: str) -> list[str]:
    name = batches.name(model)
    lines = [chat_line(f"n-{number}", f"What is {number}?", tokens=16, model=model) for number in range(20)]
    batches.apply(name, batches.put(f"in/{name}.jsonl", lines), server={"url": URL})
    return [line["response"]["body"]["choices"][0]["message"]["content"] for line in assert_whole(batches, name, lines)]


def test_texts_are_embedded(batches: Quickstart, model_server: ModelServer) -> None:
    ModelServer(model_server.cluster, "vllm-embedding").wait_ready()
    name = batches.name("embedding")
    lines: list[dict[str, Any]] = [
        {
            "custom_id": f"n-{number}",
            "method": "POST",
            "url": "/v1/embeddings",
            "body": {"model": EMBEDDING_MODEL, "input": f"text number {number}"},
        }
        for number in range(100)
    ]
    batches.apply(name, batches.put(f"in/{name}.jsonl", lines), server={"url": EMBEDDING_URL})
    results = assert_whole(batches, name, lines)
    vectors = [line["response"]["body"]["data"][0]["embedding"] for line in results]
    assert len({len(vector) for vector in vectors}) == 1
    assert len({tuple(vector) for vector in vectors}) == len(lines)
