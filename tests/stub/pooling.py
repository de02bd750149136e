"""Answers of the endpoints that measure texts, in vLLM's shapes: embeddings, score, rerank."""

import base64
import struct
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from stub import errors, requests, texts
from stub.answers import Answer, Counts
from stub.chance import unit_draw
from stub.switches import Step

DIMENSIONS = 8


def embeddings(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    _no_finish("/v1/embeddings", step)
    if "input" not in body:
        raise errors.missing_field("input", body)
    if body["input"] == []:
        raise errors.bad_request("You must pass at least one prompt")
    inputs = texts.prompt_texts(body["input"])
    if inputs is None:
        raise errors.invalid_field("input", "list_type", "Input should be a valid list", body["input"])
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise errors.invalid_field("encoding_format", "literal_error", "Input should be 'float' or 'base64'", form)
    dimensions = _dimensions(body)
    data: list[dict[str, Any]] = [
        {"index": index, "object": "embedding", "embedding": _encoded(embedding_of(text, dimensions), form)}
        for index, text in enumerate(inputs)
    ]
    counts = Counts(sum(map(texts.count_tokens, inputs)))
    head = {
        "id": f"embd-{request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": model,
        "data": data,
    }
    return Answer(_padded(head | _usage(counts, step), step), counts)


def score(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    _no_finish("/v1/score", step)
    left, right = _pairs(body)
    counts = Counts(sum(map(texts.count_tokens, [*left, *right])))
    data = [
        {"index": index, "object": "score", "score": score_of(one, other)}
        for index, (one, other) in enumerate(zip(left, right, strict=True))
    ]
    head = {
        "id": f"score-{request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": model,
        "data": data,
    }
    return Answer(_padded(head | _usage(counts, step), step), counts)


def rerank(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    _no_finish("/v1/rerank", step)
    if "query" not in body:
        raise errors.missing_field("query", body)
    query = body["query"]
    if not isinstance(query, str):
        raise errors.invalid_field("query", "string_type", "Input should be a valid string", query)
    documents = _texts(body, "documents")
    top = requests.whole(body, "top_n") or 0
    if top < 0:
        raise errors.invalid_field("top_n", "greater_than_equal", "Input should be greater than or equal to 0", top)
    results: list[dict[str, Any]] = [
        {
            "index": index,
            "document": {"text": document, "multi_modal": None},
            "relevance_score": score_of(query, document),
        }
        for index, document in enumerate(documents)
    ]
    results.sort(key=lambda result: result["relevance_score"], reverse=True)
    counts = Counts(sum(map(texts.count_tokens, [query, *documents])))
    tokens = {} if step.usage == "none" else {"prompt_tokens": counts.prompt, "total_tokens": counts.prompt}
    head: dict[str, Any] = {"id": f"rerank-{request_id}", "model": model, "results": results[: top or None]}
    return Answer(_padded(head | ({"usage": tokens} if tokens else {}), step), counts)


def embedding_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the embedding of a text: numbers from -1 to 1 that float32 holds exactly."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return [unit_step / 128 - 1 for unit_step in (digest * (dimensions // 32 + 1))[:dimensions]]


def score_of(one: str, other: str) -> float:
    """Return the score of a pair of texts, from 0 to 1."""
    return unit_draw(0, one, other)


def _encoded(vector: list[float], form: str) -> list[float] | str:
    if form == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _pairs(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    for first, second in (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2")):
        if first in body and second in body:
            left, right = _texts(body, first), _texts(body, second)
            # One text is compared with each of many.
            left = left * len(right) if len(left) == 1 else left
            if len(left) != len(right):
                raise errors.bad_request("Input lengths must be either 1:1, 1:N or N:N")
            return left, right
    raise errors.missing_field("queries", body)


def _texts(body: Mapping[str, Any], name: str) -> list[str]:
    if name not in body:
        raise errors.missing_field(name, body)
    value = body[name]
    if isinstance(value, str):
        return [value]
    if value == []:
        raise errors.bad_request("At least one text_pair element must be given")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise errors.invalid_field(name, "list_type", "Input should be a valid list", value)


def _dimensions(body: Mapping[str, Any]) -> int:
    dimensions = requests.whole(body, "dimensions")
    if dimensions is None:
        return DIMENSIONS
    if not 1 <= dimensions <= 65_536:
        raise errors.bad_request(f"dimensions must be from 1 to 65536, got {dimensions}.")
    return dimensions


def _usage(counts: Counts, step: Step) -> dict[str, Any]:
    if step.usage == "none":
        return {}
    return {
        "usage": {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        }
    }


def _padded(body: dict[str, Any], step: Step) -> dict[str, Any]:
    # These answers hold no text to draw out; an unknown member does no harm.
    return body | {"padding": "a" * step.size} if step.size else body


def _no_finish(endpoint: str, step: Step) -> None:
    useless = [name for name in ("finish", "text", "cached", "reasoning") if getattr(step, name) is not None]
    if useless:
        raise errors.bad_request(f"metadata.stub: {endpoint} has no {' and no '.join(useless)}")
