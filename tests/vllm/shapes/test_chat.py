"""/v1/chat/completions: the stub's answers have the shape of the real ones."""

from typing import Any

import pytest

from vllm.flags import FEW_SPACES, MODEL
from vllm.shapes.bodies import FORMAT, LONG, NO_TOKENS, OVERLONG, one_call
from vllm.shapes.both import Both, Case, named

PATH = "/v1/chat/completions"
UNCUT: dict[str, Any] = {"max_tokens": None, "ignore_eos": None}
TOOLS = [{"type": "function", "function": {"name": "set_unit", "parameters": FORMAT, "strict": True}}]
RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "unit", "schema": FORMAT, "strict": True}}
SET_UNIT = {"type": "function", "function": {"name": "set_unit"}}
EVERY_KIND = "pydantic goes through every kind of message in the SDK's words"


def chat(content: Any = LONG, **fields: Any) -> dict[str, Any]:
    """A request whose answer is cut after four tokens, and ends at none before them, unless fields say otherwise."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 4, "ignore_eos": True}
    return {name: value for name, value in (body | fields).items() if value is not None}


def answered(text: str, **fields: Any) -> dict[str, Any]:
    """A request that is answered with a text."""
    return chat(structured_outputs={"choice": [text]}, **UNCUT, **fields)


CASES: dict[str, Case] = {
    "cut": Case(chat()),
    "cut, by the newer name": Case(chat(max_tokens=None, max_completion_tokens=3)),
    "at its end": Case(answered("one two three")),
    "at a stop string": Case(answered("one two three", stop=["two"])),
    "at a stop string, kept": Case(answered("one two three", stop="two", include_stop_str_in_output=True)),
    "at a stop token": Case(
        chat(logit_bias={"300": 100}, stop_token_ids=[300], max_tokens=None),
        meant={"choices[].stop_reason": NO_TOKENS},
    ),
    "two answers": Case(chat(n=2)),
    "a seed": Case(chat(seed=7, temperature=0.9)),
    "a system message and parts": Case(
        chat(messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": LONG}]},
        ])
    ),
    "echo": Case(
        chat(
            messages=[{"role": "user", "content": LONG}, {"role": "assistant", "content": "so"}],
            echo=True, add_generation_prompt=False, continue_final_message=True,
        ),
        short=False,  # for the first prompt whose log-probabilities it tells, vLLM compiles something
    ),
    "logprobs": Case(chat(logprobs=True)),
    "logprobs with others": Case(chat(logprobs=True, top_logprobs=2, n=2)),
    "a JSON schema": Case(chat(response_format=RESPONSE_FORMAT, **UNCUT, **FEW_SPACES)),
    "any JSON object": Case(
        chat(response_format={"type": "json_object"}, max_tokens=1),
        meant={"choices[].finish_reason": "the smallest object is one of the stub's tokens, and its end needs none"},
    ),
    "tools that aren't called": Case(chat(tools=TOOLS)),
    "tools that must not be called": Case(chat(tools=TOOLS, tool_choice="none")),
    "a tool that is named": Case(
        chat(tools=TOOLS, tool_choice=SET_UNIT, **UNCUT, **FEW_SPACES)
    ),
    "unknown members": Case(chat(metadata={"id": "line-1"}, user="somebody", nonsense=1)),
    "no model named": Case(chat(model=None)),
}  # fmt: skip


@pytest.mark.parametrize("name", named(CASES))
def test_an_answer(both: Both, name: str) -> None:
    both.ask(CASES[name], PATH).assert_alike(CASES[name].meant)


@pytest.mark.vllm_short
def test_a_tool_that_must_be_called(both: Both) -> None:
    body = chat(tools=TOOLS, tool_choice="required", **UNCUT, logit_bias=one_call(both), **FEW_SPACES)
    both.ask(Case(body), PATH).assert_alike({})


ERRORS: dict[str, Case] = {
    "no messages": Case({"model": MODEL}),
    "messages of another type": Case(chat(messages="hello")),
    "empty messages": Case(chat(messages=[])),
    "a message that is none": Case(
        chat(messages=["hello"]), meant={"error.message": EVERY_KIND, "error.param": EVERY_KIND}
    ),
    "max_tokens as a text": Case(chat(max_tokens="eight")),
    "max_tokens of nothing": Case(chat(max_tokens=0)),
    "max_tokens below nothing": Case(chat(max_tokens=-1)),
    "no answer wanted": Case(chat(n=0)),
    "more tokens than the model can hold": Case(chat(max_tokens=5000)),
    "a longer prompt than the model can hold": Case(chat(OVERLONG)),
    "more logprobs than allowed": Case(chat(logprobs=True, top_logprobs=100)),
    "others without logprobs": Case(chat(top_logprobs=2)),
    "a tool choice without tools": Case(chat(tool_choice="auto")),
    "an empty list of tools": Case(chat(tools=[])),
    "a tool that isn't there": Case(
        chat(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}})
    ),
    "a format without its schema": Case(chat(response_format={"type": "json_schema"})),
    "a model that isn't served": Case(chat(model="other")),
    "a model of another type": Case(chat(model=3)),
    "malformed JSON": Case(b'{"model": '),
    "JSON of another kind": Case(b"[]"),
    "an empty body": Case(b""),
    "a body that is no text": Case(b'{"model": "\xff"}'),
    "a body that is nested too deeply": Case(b"[" * 100_000),
    "another media type": Case(b"{}", headers={"Content-Type": "text/plain"}),
    "the wrong method": Case(None, method="GET"),
}  # fmt: skip


@pytest.mark.parametrize("name", named(ERRORS))
def test_a_refusal(both: Both, name: str) -> None:
    both.ask(ERRORS[name], PATH).assert_alike(ERRORS[name].meant)
