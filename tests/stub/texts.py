"""The texts of requests and answers, and how their tokens are counted. Tests compute what they expect here."""

from collections.abc import Iterable
from typing import Any


def answer_to(prompt: str) -> str:
    """Return the answer to a prompt: its characters in reverse.

    It belongs to its request and cannot be mistaken for the request itself.
    """
    return prompt[::-1]


def count_tokens(text: str) -> int:
    """Count a token for each word, and one at least: a model always makes an end-of-text token."""
    return max(1, len(text.split()))


def cut(text: str, tokens: int) -> str:
    """Return the first so many words, joined by single spaces."""
    return " ".join(text.split()[:tokens])


def content_text(content: Any) -> str:
    """Return the text of a message's content: a string, or parts of which those with a text count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part_texts(content))
    return ""


def part_texts(parts: Iterable[Any]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def prompt_texts(value: Any) -> list[str] | None:
    """Return the prompts of a field that takes a text, a list of texts, token ids, or a list of token ids.

    Token ids stand for a text of their decimal numbers. None: the field holds none of these.
    """
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value):
        return value
    if all(_is_token(item) for item in value):
        return [" ".join(map(str, value))]
    if all(isinstance(item, list) and item and all(map(_is_token, item)) for item in value):
        return [" ".join(map(str, item)) for item in value]
    return None


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
