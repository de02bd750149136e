"""Answers of the endpoints that generate text, in vLLM's shapes: chat, completions, responses."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stub import errors, texts
from stub.switches import Step

FINGERPRINT = "vllm-0.32.0-stub"
COMPLETION_TOKENS = 16
"""vLLM's default of max_tokens for /v1/completions; the other endpoints have none."""

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
class _Text:
    text: str
    tokens: int
    finish: str | None


def chat_completion(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    messages = body.get("messages")
    if messages is None:
        raise errors.invalid_field("messages", "missing", "Field required")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise errors.invalid_field("messages", "list_type", "Input should be a valid list of messages")
    if not messages:
        raise errors.bad_request("You must pass at least one message", param="messages")
    contents = [texts.content_text(message.get("content")) for message in messages]
    # OpenAI's newer name goes first.
    limit = _limit(body, "max_completion_tokens", _limit(body, "max_tokens", None))
    made = _generate(last_user_text(messages), limit, step)
    choices = [
        {
            "index": index,
            "message": {
                "role": "assistant",
                "content": made.text,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": None,
            },
            "logprobs": None,
            "finish_reason": made.finish,
            "stop_reason": None,
            "token_ids": None,
        }
        for index in range(_choices(body))
    ]
    counts = Counts(sum(map(texts.count_tokens, contents)), made.tokens * len(choices), step.cached or 0)
    return Answer(
        {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "kv_transfer_params": None,
        }
        | usage(counts, step),
        counts,
        made.finish,
    )


def completion(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    if body.get("prompt") is None:
        raise errors.bad_request("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    prompts = texts.prompt_texts(body["prompt"])
    if prompts is None:
        raise errors.invalid_field("prompt", "string_type", "Input should be a text, token ids, or a list of these")
    copies = _choices(body)
    made = [_generate(prompt, _limit(body, "max_tokens", COMPLETION_TOKENS), step) for prompt in prompts]
    choices = [
        {
            "index": number * copies + copy,
            "text": one.text,
            "logprobs": None,
            "finish_reason": one.finish,
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
        }
        for number, one in enumerate(made)
        for copy in range(copies)
    ]
    counts = Counts(sum(map(texts.count_tokens, prompts)), copies * sum(one.tokens for one in made), step.cached or 0)
    return Answer(
        {
            "id": f"cmpl-{request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "kv_transfer_params": None,
        }
        | usage(counts, step),
        counts,
        made[0].finish,
    )


def response(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    """/v1/responses. It has no finish reason: cut is `incomplete`, aborted is `cancelled`.

    vLLM says `cancelled` for models of the harmony format only; with others an aborted response passes as completed.
    """
    if body.get("input") is None:
        raise errors.invalid_field("input", "missing", "Field required")
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise errors.invalid_field("input", "list_type", "Input should be a text or a list of items")
    made = _generate(last_user_text(items), _limit(body, "max_output_tokens", None), step)
    instructions = body.get("instructions")
    contents = [texts.content_text(item.get("content")) for item in items]
    contents += [instructions] if isinstance(instructions, str) else []
    counts = Counts(sum(map(texts.count_tokens, contents)), made.tokens, step.cached or 0)
    status = {"length": "incomplete", "abort": "cancelled", None: None}.get(made.finish, "completed")
    return Answer(
        {
            "id": f"resp_{request_id}",
            "created_at": int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": instructions,
            "metadata": body.get("metadata"),
            "model": model,
            "object": "response",
            "output": [
                {
                    "id": f"msg_{request_id}",
                    "content": [{"annotations": [], "text": made.text, "type": "output_text", "logprobs": None}],
                    "role": "assistant",
                    "status": "completed" if status == "completed" else "incomplete",
                    "type": "message",
                }
            ],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "background": False,
            "max_output_tokens": body.get("max_output_tokens") or 1024,
            "max_tool_calls": None,
            "previous_response_id": None,
            "prompt": None,
            "reasoning": None,
            "service_tier": "auto",
            "status": status,
            "text": None,
            "top_logprobs": None,
            "truncation": "disabled",
            "user": body.get("user"),
            "usage": None if step.usage == "none" else _response_usage(counts, step),
        },
        counts,
        made.finish,
    )


def last_user_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message by a user, else of the last message."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return texts.content_text(message.get("content"))
    return texts.content_text(messages[-1].get("content")) if messages else ""


def usage(counts: Counts, step: Step) -> dict[str, Any]:
    """Return the member `usage` with prompt_tokens_details, as with --enable-prompt-tokens-details."""
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
                "created_cache_tokens": None,
                "multimodal_tokens": None,
            },
            "completion_tokens_details": reasoning,
        }
    }


def _response_usage(counts: Counts, step: Step) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {
            "cached_tokens": counts.cached,
            "cache_write_tokens": 0,
            "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": counts.completion,
        "output_tokens_details": {
            "reasoning_tokens": step.reasoning or 0,
            "tool_output_tokens": 0,
            "output_tokens_per_turn": [],
            "tool_output_tokens_per_turn": [],
        },
        "total_tokens": counts.prompt + counts.completion,
    }


def _generate(prompt: str, limit: int | None, step: Step) -> _Text:
    text = texts.answer_to(prompt)
    tokens = texts.count_tokens(text)
    finish: str | None = "stop"
    if limit is not None and tokens > limit:
        text, tokens, finish = texts.cut(text, limit), limit, "length"
    if step.finish in ("length", "abort", "null"):
        # What is cut short has only part of its text, as in vLLM.
        tokens = max(1, tokens // 2)
        text, finish = texts.cut(text, tokens), None if step.finish == "null" else step.finish
    elif step.finish == "stop":
        finish = "stop"
    if step.size is not None:
        text = _drawn_out(text, step.size)
        tokens = texts.count_tokens(text)
    if step.text == "surrogate":
        text += SURROGATE_MARK
    elif step.text == "line_separator":
        text += LINE_SEPARATOR
    return _Text(text, tokens, finish)


def _drawn_out(text: str, size: int) -> str:
    unit = (text or "a") + " "
    return unit * (size // len(unit.encode("utf-8", "replace")) + 1)


def _limit(body: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.invalid_field(name, "int_type", "Input should be a valid integer")
    if value < 1:
        raise errors.bad_request(f"{name} must be at least 1, got {value}.", param=name)
    return value


def _choices(body: Mapping[str, Any]) -> int:
    copies = _limit(body, "n", 1) or 1
    if copies > 128:
        raise errors.bad_request(f"n must be at most 128, got {copies}.", param="n")
    return copies
