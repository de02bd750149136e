"""Answers of /v1/responses, in vLLM's shape."""

import time
from collections.abc import Mapping
from typing import Any

from stub import errors, logprobs, requests, texts
from stub.answers import Answer, Counts, Written, limit_of, write
from stub.generation import last_user_text
from stub.models import MAX_MODEL_LENGTH
from stub.schemas import guided_text
from stub.switches import Step
from stub.tools import ToolCall, demanded_call

LOGPROBS = "message.output_text.logprobs"


def response(body: Mapping[str, Any], model: str, request_id: str, step: Step) -> Answer:
    """/v1/responses. It has no finish reason: cut is `incomplete`, aborted is `cancelled`.

    vLLM says `cancelled` for models of the harmony format only; with others an aborted response passes as completed.
    """
    items = _items(body)
    _refuse_store(body)
    call = demanded_call(body)
    guided = call.arguments if call else guided_text(body, _format(body))
    whole = texts.answer_to(last_user_text(items)) if guided is None else guided
    made = write(whole, body, limit_of(body, "max_output_tokens"), step)
    instructions = body.get("instructions")
    contents = [texts.content_text(item.get("content")) for item in items]
    contents += [instructions] if isinstance(instructions, str) else []
    counts = Counts(sum(map(texts.count_tokens, contents)), made.tokens, step.cached or 0)
    status = {"length": "incomplete", "abort": "cancelled", None: None}.get(made.finish, "completed")
    tools = [_told(tool) for tool in body.get("tools") or ()]
    return Answer(
        {
            "id": f"resp_{request_id}",
            "created_at": int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": instructions,
            "metadata": body.get("metadata"),
            "model": model,
            "object": "response",
            "output": [_called(call, made, request_id) if call else _message(body, made, request_id)],
            "parallel_tool_calls": True,
            "temperature": float(body.get("temperature") or 1.0),
            "tool_choice": body.get("tool_choice") or ("auto" if tools else "none"),
            "tools": tools,
            "top_p": float(body.get("top_p") or 1.0),
            "background": False,
            "max_output_tokens": body.get("max_output_tokens") or MAX_MODEL_LENGTH - counts.prompt,
            "max_tool_calls": None,
            "previous_response_id": None,
            "prompt": None,
            "reasoning": None,
            "service_tier": "auto",
            "status": status,
            "text": _text(body),
            "top_logprobs": body.get("top_logprobs"),
            "truncation": "disabled",
            "user": body.get("user"),
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
            "usage": None if step.usage == "none" else _usage(counts, step),
        },
        counts,
        made.finish,
    )


def _items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "input" not in body:
        raise errors.missing_field("input", body)
    value = body["input"]
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise errors.invalid_field("input", "string_type", "Input should be a valid string", value)
    return value


def _refuse_store(body: Mapping[str, Any]) -> None:
    if earlier := body.get("previous_response_id"):
        raise errors.no_store("response_id", 404, f"Response with id '{earlier}' not found.")
    if body.get("background"):
        message = (
            "This vLLM engine does not support `store=True` and therefore does not support the background mode."
            " To enable these features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1`"
            " when launching the vLLM server."
        )
        raise errors.no_store("background", 400, message)


def _format(body: Mapping[str, Any]) -> Any:
    text = body.get("text")
    return text.get("format") if isinstance(text, dict) else None


def _text(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The member `text` with all its members, as vLLM tells it again."""
    text = body.get("text")
    if not isinstance(text, dict):
        return None
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        form = {"description": None, "strict": None} | form
    return {"verbosity": None, **text, "format": form}


def _told(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool with all its members."""
    absent = ("allowed_callers", "async", "defer_loading", "description", "output_schema")
    return dict.fromkeys(absent) | dict(tool)


def _message(body: Mapping[str, Any], made: Written, request_id: str) -> dict[str, Any]:
    wanted = LOGPROBS in (body.get("include") or ())
    others = requests.whole(body, "top_logprobs") or 0
    content = {
        "annotations": [],
        "text": made.text,
        "type": "output_text",
        "logprobs": logprobs.of_response(made.text, others) if wanted else None,
    }
    # The message is complete even where the response isn't.
    return {
        "id": f"msg_{request_id}",
        "content": [content],
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "phase": None,
    }


def _called(call: ToolCall, made: Written, request_id: str) -> dict[str, Any]:
    return {
        "arguments": made.text,
        "call_id": f"call_{request_id}",
        "name": call.name,
        "type": "function_call",
        "id": f"fc_{request_id}",
        "async": None,
        "caller": None,
        "namespace": None,
        "status": "completed",
    }


def _usage(counts: Counts, step: Step) -> dict[str, Any]:
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
