"""Log-probabilities, in vLLM's shapes.

A token is a word with the space before it, so that tokens join to their text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stub import errors, requests
from stub.chance import unit_draw

MOST = 20
"""vLLM's default of --max-logprobs."""


def asked_in_chat(body: Mapping[str, Any]) -> int | None:
    """Return how many others a chat wants beside each token; None where it wants no log-probabilities.

    Raises:
        ApiError: (400) others without log-probabilities, or too many.
    """
    others = requests.whole(body, "top_logprobs") or 0
    if not body.get("logprobs"):
        if others:
            message = "when using `top_logprobs`, `logprobs` must be set to true."
            raise errors.bad_request(message, param="top_logprobs")
        return None
    return _bounded(others)


def asked_in_completion(body: Mapping[str, Any]) -> int | None:
    """The same of a completion, where one number says both. Raises ApiError (400)."""
    others = requests.whole(body, "logprobs")
    return None if others is None else _bounded(others)


def of_chat(text: str, others: int) -> dict[str, Any]:
    """The member `logprobs` of a chat's choice."""
    return {"content": [_entry(token) | {"top_logprobs": _ranked(token, others)} for token in tokens_of(text)]}


def of_response(text: str, others: int) -> list[dict[str, Any]]:
    """The member `logprobs` of a response's text."""
    return [_entry(token) | {"top_logprobs": _ranked(token, others)} for token in tokens_of(text)]


def of_completion(text: str, others: int, *, echoed: str = "") -> dict[str, Any]:
    """The member `logprobs` of a completion's choice. Nothing comes before the first token of an echoed prompt."""
    tokens = [*(tokens_of(echoed) if echoed else []), *tokens_of(text)]
    first = 1 if echoed else 0
    offsets = [0]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    return {
        "text_offset": offsets,
        "token_logprobs": [None] * first + [_logprob(token) for token in tokens[first:]],
        "tokens": tokens,
        "top_logprobs": [None] * first
        + [{other: _logprob(other) for other in _candidates(token, others + 1)} for token in tokens[first:]],
    }


def of_prompt(prompt: str, others: int) -> Sequence[Any]:
    """The member `prompt_logprobs`, by the ids of tokens, for which their places stand here."""
    return [
        None,
        *(
            {
                str(place * (MOST + 1) + rank): {"logprob": _logprob(other), "rank": rank, "decoded_token": other}
                for rank, other in enumerate(_candidates(token, others + 1), 1)
            }
            for place, token in enumerate(tokens_of(prompt)[1:])
        ),
    ]


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, at least one."""
    return re.findall(r"\s*\S+(?:\s+$)?", text) or [text]


def _bounded(others: int) -> int:
    if others > MOST:
        message = f"Requested sample logprobs of {others}, which is greater than max allowed: {MOST}"
        raise errors.bad_request(message, param="logprobs", value=others)
    return others


def _ranked(token: str, others: int) -> list[dict[str, Any]]:
    return [_entry(other) for other in _candidates(token, others)]


def _candidates(token: str, count: int) -> list[str]:
    """The token itself, and others that might have stood there."""
    return [token, *(f"{token}{number}" for number in range(1, count))][:count]


def _entry(token: str) -> dict[str, Any]:
    return {"token": token, "logprob": _logprob(token), "bytes": list(token.encode("utf-8", "replace"))}


def _logprob(token: str) -> float:
    return -unit_draw(0, token, "logprob")
