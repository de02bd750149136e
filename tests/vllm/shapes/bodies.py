"""Parts of requests that several endpoints are asked with."""

from typing import Any, Final

from vllm.flags import MODEL
from vllm.shapes.both import Both

LONG: Final = " ".join(f"word{number}" for number in range(20))
"""The stub's answer is as long: longer than any limit of the tables, so that both servers cut it."""
FORMAT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"unit": {"enum": ["celsius", "fahrenheit"]}, "exact": {"type": "boolean"}},
    "required": ["unit", "exact"],
    "additionalProperties": False,
}
NO_TOKENS: Final = "the stub's tokens are words and have no ids"
OVERLONG: Final = "word " * 1100
"""More tokens than the model can hold, by either way to count them."""


def one_call(both: Both) -> dict[str, int]:
    """A bias to the end of a list: a model that knows nothing would call tools again and again."""
    asked = {"model": MODEL, "prompt": "]", "add_special_tokens": False}
    return {str(token): 100 for token in both.real.post("/tokenize", json=asked).json()["tokens"]}
