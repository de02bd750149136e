"""/v1/embeddings, /v1/score and /v1/rerank: the stub's answers have the shape of the real ones."""

from typing import Any

import pytest

from vllm.flags import EMBEDDING_MODEL, KEY
from vllm.shapes.bodies import OVERLONG
from vllm.shapes.both import Both, Case

EVERY_KIND = {"error.message": "pydantic goes through every kind of request that the path takes"}
EMBEDDINGS, SCORE, RERANK = "/v1/embeddings", "/v1/score", "/v1/rerank"


def body(**fields: Any) -> dict[str, Any]:
    return {"model": EMBEDDING_MODEL} | fields


CASES: dict[str, Case] = {
    "a text": Case(body(input="one two"), EMBEDDINGS),
    "texts": Case(body(input=["one two", "three"]), EMBEDDINGS),
    "token ids": Case(body(input=[5, 6, 7]), EMBEDDINGS),
    "lists of token ids": Case(body(input=[[5, 6, 7], [8]]), EMBEDDINGS),
    "as floats": Case(body(input="one two", encoding_format="float"), EMBEDDINGS),
    "as base64": Case(body(input="one two", encoding_format="base64"), EMBEDDINGS),
    "fewer dimensions": Case(body(input="one two", dimensions=32), EMBEDDINGS),
    "for somebody": Case(body(input="one two", user="somebody", metadata={"id": "line-1"}), EMBEDDINGS),
    "no model named": Case({"input": "one two"}, EMBEDDINGS),
    "scores of one with two": Case(body(text_1="one", text_2=["two", "three"]), SCORE),
    "scores of pairs": Case(body(text_1=["one", "two"], text_2=["two", "three"]), SCORE),
    "scores of queries": Case(body(queries="one", documents=["two", "three"]), SCORE),
    "scores of items": Case(body(queries="one", items=["two", "three"]), SCORE),
    "scores of data": Case(body(data_1="one", data_2=["two", "three"]), SCORE),
    "a ranking": Case(body(query="one", documents=["two", "three"]), RERANK),
    "a part of a ranking": Case(body(query="one", documents=["two"], top_n=1), RERANK),
}


@pytest.mark.parametrize("name", CASES)
def test_an_answer(both_embedding: Both, name: str) -> None:
    both_embedding.ask(CASES[name]).assert_alike(CASES[name].meant)


@pytest.mark.parametrize("path", [EMBEDDINGS, SCORE, RERANK])
@pytest.mark.parametrize("authorization", ["", "Bearer wrong", f"Basic {KEY}"])
def test_without_the_key(both_embedding: Both, path: str, authorization: str) -> None:
    case = Case(body(input="one"), path, headers={"Authorization": authorization})
    pair = both_embedding.ask(case)
    pair.assert_alike({})
    assert (pair.stub.status, pair.stub.body) == (401, pair.real.body)


ERRORS: dict[str, Case] = {
    "no input": Case(body(), EMBEDDINGS, meant=EVERY_KIND),
    "an empty list": Case(body(input=[]), EMBEDDINGS),
    "an input of another type": Case(body(input=3), EMBEDDINGS, meant=EVERY_KIND),
    "an unknown encoding": Case(body(input="one", encoding_format="hex"), EMBEDDINGS, meant=EVERY_KIND),
    "dimensions as a text": Case(body(input="one", dimensions="four"), EMBEDDINGS, meant=EVERY_KIND),
    "a longer text than the model can hold": Case(body(input=OVERLONG), EMBEDDINGS),
    "a model that isn't served": Case(body(input="one", model="other"), EMBEDDINGS),
    "malformed JSON": Case(b'{"model": ', EMBEDDINGS),
    "one text to score": Case(body(text_1="one"), SCORE, meant=EVERY_KIND),
    "scores of unequal lists": Case(body(text_1=["one", "two"], text_2=["two"]), SCORE),
    "no query": Case(body(documents=["two"]), RERANK),
    "no documents": Case(body(query="one"), RERANK),
    "empty documents": Case(body(query="one", documents=[]), RERANK),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_refusal(both_embedding: Both, name: str) -> None:
    both_embedding.ask(ERRORS[name]).assert_alike(ERRORS[name].meant)
