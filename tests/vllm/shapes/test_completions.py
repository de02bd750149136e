"""/v1/completions: the stub's answers have the shape of the real ones."""

from typing import Any

import pytest

from vllm.flags import FEW_SPACES, MODEL
from vllm.shapes.bodies import LONG, NO_TOKENS, OVERLONG
from vllm.shapes.both import Both, Case, named

PATH = "/v1/completions"
UNCUT: dict[str, Any] = {"max_tokens": 500, "ignore_eos": None}
EVERY_KIND = "pydantic goes through every kind of prompt"


def prompt(text: Any = LONG, **fields: Any) -> dict[str, Any]:
    """A request whose answer is cut after four tokens, and ends at none before them, unless fields say otherwise."""
    body = {"model": MODEL, "prompt": text, "max_tokens": 4, "ignore_eos": True}
    return {name: value for name, value in (body | fields).items() if value is not None}


CASES: dict[str, Case] = {
    "cut": Case(prompt()),
    "cut by default": Case(prompt(max_tokens=None)),
    "at its end": Case(prompt(structured_outputs={"choice": ["one two three"]}, **UNCUT)),
    "at a stop string": Case(prompt(structured_outputs={"choice": ["one two three"]}, stop=["two"], **UNCUT)),
    "at a stop token": Case(
        prompt(logit_bias={"300": 100}, stop_token_ids=[300]),
        meant={"choices[].stop_reason": NO_TOKENS, "choices[].finish_reason": NO_TOKENS},
    ),
    "two answers": Case(prompt(n=2)),
    "two prompts": Case(prompt([LONG, LONG + " more"])),
    "token ids": Case(prompt([5, 6, 7, 8, 9])),
    "two prompts of token ids": Case(prompt([[5, 6, 7, 8, 9], [6, 7, 8, 9, 10]])),
    "echo": Case(prompt(echo=True)),
    "logprobs": Case(prompt(logprobs=2)),
    "logprobs of the token alone": Case(prompt(logprobs=0)),
    "echo with logprobs": Case(prompt(echo=True, logprobs=1), short=False),
    "a seed": Case(prompt(seed=7, temperature=0.9)),
    "a JSON schema": Case(
        prompt(
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [True]}}},
            **UNCUT,
            **FEW_SPACES,
        )
    ),
    "unknown members": Case(prompt(metadata={"id": "line-1"}, nonsense=1)),
}


@pytest.mark.parametrize("name", named(CASES))
def test_an_answer(both: Both, name: str) -> None:
    both.ask(CASES[name], PATH).assert_alike(CASES[name].meant)


ERRORS: dict[str, Case] = {
    "no prompt": Case({"model": MODEL}),
    "a null prompt": Case({"model": MODEL, "prompt": None}),
    "an empty list of prompts": Case(prompt([])),
    "an empty prompt": Case(prompt("")),
    "a prompt of another type": Case(prompt({"a": 1}), meant={"error.message": EVERY_KIND}),
    "max_tokens as a text": Case(prompt(max_tokens="eight")),
    "max_tokens below nothing": Case(prompt(max_tokens=-1)),
    "more tokens than the model can hold": Case(prompt(max_tokens=5000)),
    "a longer prompt than the model can hold": Case(prompt(OVERLONG)),
    "more logprobs than allowed": Case(prompt(logprobs=100)),
    "a model that isn't served": Case(prompt(model="other")),
    "malformed JSON": Case(b'{"model": '),
    "JSON of another kind": Case(b'"hello"'),
}


@pytest.mark.parametrize("name", named(ERRORS))
def test_a_refusal(both: Both, name: str) -> None:
    both.ask(ERRORS[name], PATH).assert_alike(ERRORS[name].meant)
