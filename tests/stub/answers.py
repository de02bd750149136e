"""What every answer has: its text, what it counts for, and why it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stub import errors, requests, texts
from stub.switches import Step

# Stand-ins for what JSON encoders escape or refuse; stub.wire puts the real bytes in their place.
SURROGATE_MARK = "<lone surrogate>"
LINE_SEPARATOR = "\u2028"


@dataclass(frozen=True, slots=True)
class Counts:
    """The tokens of one answer."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's body, what it counts for in the metrics, and why it ended."""

    body: dict[str, Any]
    counts: Counts
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A text that was generated."""

    text: str
    tokens: int
    finish: str | None
    stop: str | None = None
    """The stop string that it ended at."""


def write(whole: str, body: Mapping[str, Any], limit: int | None, step: Step) -> Written:
    """Generate a text: all of it, or less where the limit of tokens, a stop string or the step says so."""
    text, tokens, finish, stop = whole, texts.count_tokens(whole), "stop", None
    if limit is not None and tokens > limit:
        text, tokens, finish = texts.cut(text, limit), limit, "length"
    if body.get("stop"):
        text, stop = _stopped(text, body)
        if stop is not None:
            tokens, finish = texts.count_tokens(text), "stop"
    ended: str | None = finish
    if step.finish in ("length", "abort", "null"):
        # What is cut short has only part of its text, as in vLLM.
        tokens = max(1, tokens // 2)
        text, ended, stop = texts.cut(text, tokens), None if step.finish == "null" else step.finish, None
    elif step.finish == "stop":
        ended = "stop"
    if step.size is not None:
        text = _drawn_out(text, step.size)
        tokens = texts.count_tokens(text)
    if step.text == "surrogate":
        text += SURROGATE_MARK
    elif step.text == "line_separator":
        text += LINE_SEPARATOR
    return Written(text, tokens, ended, stop)


def limit_of(body: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """Return a limit of tokens. Raises ApiError (400) for one that isn't a whole number of at least 1."""
    limit = requests.whole(body, name)
    if limit is None:
        return default
    if limit < 1:
        # The engine has one name for it, whatever the endpoint's is.
        raise errors.bad_request(f"max_tokens must be at least 1, got {limit}.", param="max_tokens", value=limit)
    return limit


def choices_of(body: Mapping[str, Any]) -> int:
    """Return how many answers are asked for. Raises ApiError (400)."""
    copies = requests.whole(body, "n")
    if copies is None:
        return 1
    if copies < 1:
        raise errors.bad_request(f"n must be at least 1, got {copies}.")
    if copies > 128:
        raise errors.bad_request(f"n must be at most 128, got {copies}.")
    return copies


def usage(counts: Counts, step: Step, *, created: int | None = None) -> dict[str, Any]:
    """Return the member `usage` with prompt_tokens_details, as with --enable-prompt-tokens-details.

    Args:
        counts: the tokens.
        step: may leave the usage out.
        created: tokens that were put into the cache, which only chats tell.
    """
    if step.usage == "none":
        return {}
    reasoning = None if step.reasoning is None else {"reasoning_tokens": step.reasoning}
    return {
        "usage": {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt + counts.completion,
            "completion_tokens": counts.completion,
            "prompt_tokens_details": {
                "cached_tokens": counts.cached,
                "created_cache_tokens": created,
                "multimodal_tokens": None,
            },
            "completion_tokens_details": reasoning,
        }
    }


def _stopped(text: str, body: Mapping[str, Any]) -> tuple[str, str | None]:
    """Cut a text at the first of the stop strings in it, and name that one."""
    wanted = body["stop"]
    found = [(text.find(stop), stop) for stop in ([wanted] if isinstance(wanted, str) else wanted)]
    place, stop = min(((place, stop) for place, stop in found if place >= 0), default=(-1, None))
    if stop is None:
        return text, None
    return text[: place + (len(stop) if body.get("include_stop_str_in_output") else 0)], stop


def _drawn_out(text: str, size: int) -> str:
    unit = (text or "a") + " "
    return unit * (size // len(unit.encode("utf-8", "replace")) + 1)
