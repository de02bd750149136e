"""/v1/responses: the stub's answers have the shape of the real ones."""

from typing import Any

import pytest

from vllm.flags import FEW_SPACES, MODEL
from vllm.shapes.bodies import FORMAT, LONG, OVERLONG, one_call
from vllm.shapes.both import Both, Case, named

PATH = "/v1/responses"
UNCUT: dict[str, Any] = {"max_output_tokens": None, "ignore_eos": None}
EVERY_KIND = "pydantic goes through every kind of item in the SDK's words"
TOOLS = [{"type": "function", "name": "set_unit", "description": "Sets it.", "parameters": FORMAT, "strict": True}]


def asked(input_: Any = LONG, **fields: Any) -> dict[str, Any]:
    """A request whose answer is cut after four tokens, and ends at none before them, unless fields say otherwise."""
    body = {"model": MODEL, "input": input_, "max_output_tokens": 4, "ignore_eos": True}
    return {name: value for name, value in (body | fields).items() if value is not None}


CASES: dict[str, Case] = {
    "cut": Case(asked()),
    "at its end": Case(
        asked(structured_outputs={"choice": ["one two three"]}, **UNCUT)
    ),
    "a list of messages": Case(
        asked([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
        ])
    ),
    "instructions": Case(asked(instructions="be brief")),
    "a JSON schema": Case(
        asked(
            text={"format": {"type": "json_schema", "name": "unit", "schema": FORMAT, "strict": True}},
            **UNCUT,
            **FEW_SPACES,
        )
    ),
    "logprobs": Case(asked(include=["message.output_text.logprobs"], top_logprobs=2)),
    "temperature and seed": Case(asked(temperature=0.5, top_p=0.9, seed=3)),
    "metadata and user": Case(asked(metadata={"id": "line-1"}, user="somebody")),
    "unknown members": Case(asked(nonsense=1)),
    "tools that aren't called": Case(asked(tools=TOOLS)),
    "a tool that is named": Case(
        asked(tools=TOOLS, tool_choice={"type": "function", "name": "set_unit"}, **UNCUT, **FEW_SPACES)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", named(CASES))
def test_an_answer(both: Both, name: str) -> None:
    both.ask(CASES[name], PATH).assert_alike(CASES[name].meant)


@pytest.mark.vllm_short
def test_a_tool_that_must_be_called(both: Both) -> None:
    body = asked(tools=TOOLS, tool_choice="required", **UNCUT, logit_bias=one_call(both), **FEW_SPACES)
    both.ask(Case(body), PATH).assert_alike({})


ERRORS: dict[str, Case] = {
    "no input": Case({"model": MODEL}),
    "an input of another type": Case(asked(3), meant={"error.message": EVERY_KIND}),
    "a list of other things": Case(asked([1]), meant={"error.message": EVERY_KIND}),
    "max_output_tokens as a text": Case(asked(max_output_tokens="eight")),
    "max_output_tokens of nothing": Case(asked(max_output_tokens=0)),
    "a longer input than the model can hold": Case(asked(OVERLONG)),
    "an earlier response": Case(asked(previous_response_id="resp_1")),
    "in the background": Case(asked(background=True)),
    "a model that isn't served": Case(asked(model="other")),
    "malformed JSON": Case(b'{"model": '),
}


@pytest.mark.parametrize("name", named(ERRORS))
def test_a_refusal(both: Both, name: str) -> None:
    both.ask(ERRORS[name], PATH).assert_alike(ERRORS[name].meant)
