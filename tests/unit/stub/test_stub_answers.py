"""Answers belong to their request, and count their tokens by a law that tests can compute."""

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stub import pooling, requests, texts, wire
from stub.answers import Answer, Counts
from stub.errors import ApiError
from stub.inference import ENDPOINTS
from stub.schemas import fitting_text
from stub.switches import ORDINARY, parse_switches


def ask(endpoint: str, body: dict[str, Any], switches: str = "") -> Answer:
    return ENDPOINTS[endpoint](body, "m", "r1", parse_switches(switches).step_for(0, "k"))


def chat(content: Any, **body: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}], **body}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"unit": {"enum": ["c", "f"]}, "kind": {"const": 1}, "digits": {"type": "array", "minItems": 2,
        "items": {"type": "integer"}}, "note": {"type": "string"}},
    "required": ["unit", "kind", "digits"],
}  # fmt: skip
FITTING = {"unit": "c", "kind": 1, "digits": [0, 0]}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "report", "parameters": SCHEMA}}


def named(tool: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool}}


def test_chat_answers_the_last_user_message_in_reverse() -> None:
    answer = ask("/v1/chat/completions", chat("hello big world"))
    choice = answer.body["choices"][0]
    assert choice["message"]["content"] == "dlrow gib olleh"
    assert choice["finish_reason"] == "stop"
    assert answer.body["id"] == "chatcmpl-r1"
    usage = answer.body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 3, 8)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_chat_reads_the_texts_of_parts() -> None:
    parts = [{"type": "text", "text": "ab"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "cd"}]
    assert ask("/v1/chat/completions", chat(parts)).body["choices"][0]["message"]["content"] == "dc\nba"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_token_limit_cuts_the_answer(name: str) -> None:
    choice = ask("/v1/chat/completions", chat("a b c d", **{name: 2})).body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("d c", "length")


@pytest.mark.parametrize(
    ("switches", "text", "finish", "tokens"),
    [
        ("finish=length", "d c", "length", 2),
        ("finish=abort", "d c", "abort", 2),
        ("finish=null", "d c", None, 2),
        ("finish=stop", "d c b a", "stop", 4),
    ],
)
def test_a_finish_cuts_the_text_as_vllm_does(switches: str, text: str, finish: str | None, tokens: int) -> None:
    answer = ask("/v1/chat/completions", chat("a b c d"), switches)
    choice = answer.body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, finish)
    assert answer.body["usage"]["completion_tokens"] == tokens


def test_usage_follows_the_switches() -> None:
    usage = ask("/v1/chat/completions", chat("a"), "cached=5,reasoning=3").body["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 5
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}
    assert "usage" not in ask("/v1/chat/completions", chat("a"), "usage=none").body


def test_completions_answer_every_prompt_n_times() -> None:
    answer = ask("/v1/completions", {"prompt": ["ab", "c d"], "n": 2})
    assert [(choice["index"], choice["text"]) for choice in answer.body["choices"]] == [
        (0, "ba"), (1, "ba"), (2, "d c"), (3, "d c"),
    ]  # fmt: skip
    usage = answer.body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 6)


def test_completions_stop_after_16_tokens_by_default() -> None:
    choice = ask("/v1/completions", {"prompt": "a " * 20}).body["choices"][0]
    assert (len(choice["text"].split()), choice["finish_reason"]) == (16, "length")


def test_responses_have_their_own_shape_of_usage_and_status() -> None:
    answer = ask("/v1/responses", {"input": "a b", "instructions": "be brief now"}, "cached=1,reasoning=2")
    assert answer.body["output"][0]["content"][0]["text"] == "b a"
    assert answer.body["status"] == "completed"
    usage = answer.body["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (5, 2, 7)
    assert usage["input_tokens_details"]["cached_tokens"] == 1
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2


@pytest.mark.parametrize(
    ("switches", "status", "details"),
    [
        ("finish=length", "incomplete", {"reason": "max_output_tokens"}),
        ("finish=abort", "cancelled", None),
        ("finish=null", None, None),
    ],
)
def test_a_response_that_was_cut_says_so(switches: str, status: str | None, details: Any) -> None:
    body = ask("/v1/responses", {"input": "a b c d"}, switches).body
    assert (body["status"], body["incomplete_details"]) == (status, details)


def test_embeddings_are_those_of_their_inputs_in_both_encodings() -> None:
    floats = ask("/v1/embeddings", {"input": ["one", "two words"], "dimensions": 40})
    assert [item["embedding"] for item in floats.body["data"]] == [
        pooling.embedding_of("one", 40),
        pooling.embedding_of("two words", 40),
    ]
    assert floats.body["usage"]["prompt_tokens"] == floats.body["usage"]["total_tokens"] == 3
    encoded = ask("/v1/embeddings", {"input": "one", "encoding_format": "base64"}).body["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(encoded))) == pooling.embedding_of("one")


@pytest.mark.parametrize(
    "body",
    [
        {"text_1": "q", "text_2": ["a", "b"]},
        {"queries": "q", "documents": ["a", "b"]},
        {"queries": ["q", "q"], "items": ["a", "b"]},
    ],
)
def test_score_takes_all_spellings_of_its_pairs(body: dict[str, Any]) -> None:
    scores = [item["score"] for item in ask("/v1/score", body).body["data"]]
    assert scores == [pooling.score_of("q", "a"), pooling.score_of("q", "b")]


def test_rerank_sorts_by_relevance_and_cuts() -> None:
    documents = ["a", "b", "c", "d"]
    results = ask("/v1/rerank", {"query": "q", "documents": documents, "top_n": 3}).body["results"]
    best = sorted(documents, key=lambda text: pooling.score_of("q", text), reverse=True)[:3]
    assert [result["document"]["text"] for result in results] == best
    assert [documents[result["index"]] for result in results] == best


@pytest.mark.parametrize(
    ("endpoint", "body", "param"),
    [
        ("/v1/chat/completions", {}, "body.messages"),
        ("/v1/chat/completions", {"messages": "hello"}, "body.messages"),
        ("/v1/chat/completions", {"messages": []}, None),
        ("/v1/chat/completions", {"messages": ["hello"]}, "body.messages.0"),
        ("/v1/chat/completions", chat("a", max_tokens="eight"), "body.max_tokens"),
        ("/v1/chat/completions", chat("a", max_tokens=1.5), "body.max_tokens"),
        ("/v1/chat/completions", chat("a", max_tokens=[8]), "body.max_tokens"),
        ("/v1/chat/completions", chat("a", max_tokens=0), "max_tokens"),
        ("/v1/chat/completions", chat("a", n=1000), None),
        ("/v1/chat/completions", chat("a", n=0), None),
        ("/v1/chat/completions", chat("a", top_logprobs=2), "top_logprobs"),
        ("/v1/chat/completions", chat("a", logprobs=True, top_logprobs=21), "logprobs"),
        ("/v1/chat/completions", chat("a", tools=[]), "tools"),
        ("/v1/chat/completions", chat("a", tool_choice="auto"), "tool_choice"),
        ("/v1/chat/completions", chat("a", tools=[TOOL], tool_choice=named("other")), "tool_choice"),
        ("/v1/chat/completions", chat("a", response_format={"type": "json_schema"}), "response_format"),
        ("/v1/completions", {}, "prompt"),
        ("/v1/completions", {"prompt": ""}, "prompt"),
        ("/v1/completions", {"prompt": []}, None),
        ("/v1/completions", {"prompt": [1, "a"]}, "body.prompt"),
        ("/v1/responses", {}, "body.input"),
        ("/v1/responses", {"input": [1]}, "body.input"),
        ("/v1/responses", {"input": "a", "background": True}, "background"),
        ("/v1/embeddings", {}, "body.input"),
        ("/v1/embeddings", {"input": []}, None),
        ("/v1/embeddings", {"input": 3}, "body.input"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "body.encoding_format"),
        ("/v1/score", {"text_1": "a"}, "body.queries"),
        ("/v1/score", {"text_1": ["a", "b"], "text_2": ["c"]}, None),
        ("/v1/rerank", {"documents": ["a"]}, "body.query"),
        ("/v1/rerank", {"query": "a"}, "body.documents"),
    ],
)
def test_a_body_at_fault_is_refused_as_vllm_does(endpoint: str, body: dict[str, Any], param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        ask(endpoint, body)
    error = caught.value.body["error"]
    assert (caught.value.status, error["code"], error["param"]) == (400, 400, param)


@pytest.mark.parametrize("limit", ["2", 2.0, " +2 "])
def test_a_number_in_another_dress_is_read_as_vllm_reads_it(limit: Any) -> None:
    assert ask("/v1/chat/completions", chat("a b c d", max_tokens=limit)).counts.completion == 2


@pytest.mark.parametrize(
    ("fields", "text", "stop"),
    [
        ({"stop": "c"}, "d ", "c"),
        ({"stop": ["a", "b"]}, "d c ", "b"),
        ({"stop": ["c"], "include_stop_str_in_output": True}, "d c", "c"),
        ({"stop": ["x"]}, "d c b a", None),
        ({"stop": []}, "d c b a", None),
    ],
)
def test_a_stop_string_ends_the_answer(fields: dict[str, Any], text: str, stop: str | None) -> None:
    choice = ask("/v1/chat/completions", chat("a b c d", **fields)).body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == (text, "stop", stop)


def test_a_limit_before_a_stop_string_ends_the_answer_first() -> None:
    choice = ask("/v1/chat/completions", chat("a b c d", stop=["a"], max_tokens=2)).body["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)


def test_an_echo_begins_with_what_was_asked() -> None:
    completion = ask("/v1/completions", {"prompt": "ab", "echo": True}).body["choices"][0]
    assert completion["text"] == "abba"
    answer = {"role": "assistant", "content": "so "}
    messages = [*chat("ab")["messages"], answer]
    message = ask("/v1/chat/completions", {"messages": messages, "echo": True}).body["choices"][0]["message"]
    assert message["content"] == "so ba"


@given(st.text(), st.integers(0, 20))
def test_the_tokens_of_logprobs_join_to_the_text(prompt: str, others: int) -> None:
    body = chat(prompt, logprobs=True, top_logprobs=others)
    choice = ask("/v1/chat/completions", body).body["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(token["token"] for token in content) == choice["message"]["content"]
    assert all(len(token["top_logprobs"]) == others and -1 < token["logprob"] <= 0 for token in content)


def test_logprobs_of_a_completion_place_each_token_in_the_text() -> None:
    choice = ask("/v1/completions", {"prompt": "ab c", "logprobs": 2, "echo": True}).body["choices"][0]
    logprobs = choice["logprobs"]
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"].startswith(token, offset)
    assert [lp is None for lp in logprobs["token_logprobs"]] == [True, False, False, False]
    assert [others and len(others) for others in logprobs["top_logprobs"]] == [None, 3, 3, 3]
    assert [others is None for others in choice["prompt_logprobs"]] == [True, False]


@pytest.mark.parametrize(("choice", "finish"), [("required", "tool_calls"), (named("report"), "stop")])
def test_a_tool_is_called_where_that_is_demanded(choice: Any, finish: str) -> None:
    made = ask("/v1/chat/completions", chat("a", tools=[TOOL], tool_choice=choice)).body["choices"][0]
    (call,) = made["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("report", FITTING)
    assert (made["message"]["content"], made["finish_reason"]) == ("", finish)


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_a_tool_is_not_called_otherwise(choice: str | None) -> None:
    message = ask("/v1/chat/completions", chat("a", tools=[TOOL], tool_choice=choice)).body["choices"][0]["message"]
    assert message["content"] == "a"
    assert "tool_calls" not in message


def test_a_response_calls_a_tool_too() -> None:
    body = {"input": "a", "tools": [{"type": "function"} | TOOL["function"]], "tool_choice": "required"}
    (item,) = ask("/v1/responses", body).body["output"]
    assert (item["type"], item["name"], json.loads(item["arguments"])) == ("function_call", "report", FITTING)


@pytest.mark.parametrize(
    ("endpoint", "fields"),
    [
        ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("/v1/chat/completions", {"structured_outputs": {"json": SCHEMA}}),
        ("/v1/chat/completions", {"structured_outputs": {"json": json.dumps(SCHEMA)}}),
        ("/v1/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("/v1/responses", {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ],
)
def test_a_guided_answer_fits_its_schema(endpoint: str, fields: dict[str, Any]) -> None:
    asked = {"/v1/responses": {"input": "a"}, "/v1/completions": {"prompt": "a"}}.get(endpoint, chat("a"))
    body = ask(endpoint, asked | fields).body
    if endpoint == "/v1/responses":
        text = body["output"][0]["content"][0]["text"]
    else:
        text = body["choices"][0].get("text") or body["choices"][0]["message"]["content"]
    assert json.loads(text) == FITTING


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": ["string", "null"], "minLength": 3}, "aaa"),
        ({"anyOf": [{"type": "integer", "minimum": 4}, {"type": "null"}]}, 4),
        ({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}}, {"a": 0, "b": True}),
        ({"type": "null"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_value_fits_its_schema(schema: Any, value: Any) -> None:
    assert json.loads(fitting_text(schema)) == value


def test_a_switch_without_meaning_for_the_endpoint_is_refused() -> None:
    with pytest.raises(ApiError, match="has no finish"):
        ask("/v1/embeddings", {"input": "a"}, "finish=abort")


@pytest.mark.parametrize("endpoint", sorted(ENDPOINTS))
def test_a_size_draws_every_answer_out(endpoint: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": chat("añ b"),
        "/v1/completions": {"prompt": "a b"},
        "/v1/responses": {"input": ""},
        "/v1/embeddings": {"input": "a"},
        "/v1/score": {"text_1": "a", "text_2": "b"},
        "/v1/rerank": {"query": "a", "documents": "b"},
    }
    content = wire.encode_answer(ask(endpoint, bodies[endpoint], "size=100KB").body, ORDINARY)
    assert 100_000 <= len(content) < 110_000


@given(st.text())
def test_an_answer_tells_its_prompt(prompt: str) -> None:
    assert texts.answer_to(texts.answer_to(prompt)) == prompt


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"metadata":{"id":"line-1"}}', "line-1"),
        (b'{"metadata":{"id":"line-1","stub":"id=mine"}}', "mine"),
        (b'{"metadata":{"id":7}}', requests.body_key(b'{"metadata":{"id":7}}')),
        (b"{}", requests.body_key(b"{}")),
        (b'{"metadata":null}', requests.body_key(b'{"metadata":null}')),
    ],
)
def test_a_request_is_counted_under_its_identity(raw: bytes, key: str) -> None:
    assert requests.read_call(raw).key == key


def test_a_body_without_switches_leaves_room_for_the_servers() -> None:
    assert requests.read_call(b'{"metadata":{}}').switches is None
    switches = requests.read_call(b'{"metadata":{"stub":""}}').switches
    assert switches is not None
    assert switches.step_for(0, "k") is ORDINARY


@pytest.mark.parametrize(
    ("header", "body", "want"),
    [(None, {}, 0), ("5", {"priority": 1}, 5), ("high", {"priority": 1}, 1), (None, {"priority": "x"}, 0)],
)
def test_the_priority_is_read_as_vllm_reads_it(header: str | None, body: dict[str, Any], want: int) -> None:
    assert requests.priority_of(header, body) == want


def test_usage_of_many_choices_counts_them_all() -> None:
    assert ask("/v1/chat/completions", chat("a b", n=3)).counts == Counts(4, 6, 0)
