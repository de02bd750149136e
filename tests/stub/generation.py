"""Answers of chats and completions, in vLLM's shapes."""

import time
from collections.abc import Mapping
from typing import Any

from stub import errors, logprobs, texts
from stub.answers import Answer, Counts, Written, choices_of, limit_of, usage, write
from stub.schemas import guided_text
from stub.switches import Step
from stub.tools import demanded_call

FINGERPRINT = "vllm-0.32.0-stub"
COMPLETION_TOKENS = 16
"""vLLM's default of max_tokens for /v1/completions; the other endpoints have none."""


def chat_completion(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    messages = _messages(body)
    contents = [texts.content_text(message.get("content")) for message in messages]
    # OpenAI's newer name goes first.
    limit = limit_of(body, "max_completion_tokens", limit_of(body, "max_tokens"))
    others = logprobs.asked_in_chat(body)
    call = demanded_call(body)
    text = call.arguments if call else guided_text(body, _response_format(body))
    made = write(texts.answer_to(last_user_text(messages)) if text is None else text, body, limit, step)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": made.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    finish = made.finish
    if call is not None:
        function = {"name": call.name, "arguments": made.text}
        message |= {
            "content": "",
            "tool_calls": [{"id": f"chatcmpl-tool-{request_id}", "type": "function", "function": function}],
        }
        # Only a call that the model chose is told as the reason, as with OpenAI.
        finish = "tool_calls" if finish == "stop" and body["tool_choice"] == "required" else finish
    elif body.get("echo") and messages[-1].get("role") == "assistant":
        message["content"] = contents[-1] + made.text
    choices = [
        {
            "index": index,
            "message": message,
            "logprobs": None if others is None else logprobs.of_chat(made.text, others),
            "finish_reason": finish,
            "stop_reason": made.stop,
            "token_ids": None,
            "routed_experts": None,
        }
        for index in range(choices_of(body))
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
            "prompt_logprobs": logprobs.of_prompt(" ".join(contents), others or 0) if body.get("echo") else None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
        | usage(counts, step, created=0),
        counts,
        made.finish,
    )


def completion(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    prompts = _prompts(body)
    copies, others = choices_of(body), logprobs.asked_in_completion(body)
    limit = limit_of(body, "max_tokens", COMPLETION_TOKENS)
    guided = guided_text(body, _response_format(body))
    made = [write(texts.answer_to(prompt) if guided is None else guided, body, limit, step) for prompt in prompts]
    choices = [
        {"index": number * copies + copy} | _completion_choice(body, prompt, one, others)
        for number, (prompt, one) in enumerate(zip(prompts, made, strict=True))
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
            "ec_transfer_params": None,
            "metrics": None,
        }
        | usage(counts, step),
        counts,
        made[0].finish,
    )


def last_user_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message by a user, else of the last message."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return texts.content_text(message.get("content"))
    return texts.content_text(messages[-1].get("content")) if messages else ""


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if "messages" not in body:
        raise errors.missing_field("messages", body)
    if not isinstance(messages, list):
        raise errors.invalid_field("messages", "list_type", "Input should be a valid list", messages)
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise errors.invalid_field(f"messages.{place}", "dict_type", "Input should be a valid dictionary", message)
    if not messages:
        raise errors.bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    return messages


def _response_format(body: Mapping[str, Any]) -> Any:
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema" and not isinstance(form.get("json_schema"), dict):
        message = "When response_format type is 'json_schema', the 'json_schema' field must be provided."
        raise errors.bad_request(message, param="response_format")
    return form


def _prompts(body: Mapping[str, Any]) -> list[str]:
    prompt = body.get("prompt")
    if prompt is None or prompt == "":
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise errors.bad_request(message, param="prompt")
    if prompt == []:
        raise errors.bad_request("You must pass at least one prompt")
    prompts = texts.prompt_texts(prompt)
    if prompts is None:
        raise errors.invalid_field("prompt", "list_type", "Input should be a valid list", prompt)
    return prompts


def _completion_choice(body: Mapping[str, Any], prompt: str, made: Written, others: int | None) -> dict[str, Any]:
    echoed = prompt if body.get("echo") else ""
    return {
        "text": echoed + made.text,
        "logprobs": None if others is None else logprobs.of_completion(made.text, others, echoed=echoed),
        "finish_reason": made.finish,
        "stop_reason": made.stop,
        "token_ids": None,
        "prompt_logprobs": logprobs.of_prompt(echoed, others) if echoed and others is not None else None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }
