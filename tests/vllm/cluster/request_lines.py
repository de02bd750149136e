"""Request lines for the tiny models, and what must hold of a BatchJob of them."""

from typing import Any

from e2e.quickstart import CHAT, Quickstart
from vllm.flags import MODEL


def chat_line(custom_id: str, text: str, *, tokens: int, model: str = MODEL) -> dict[str, Any]:
    """A chat that gets exactly so many tokens for an answer, so that it is known what a whole one is."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
    }
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


def chat_lines(name: str, count: int, *, tokens: int) -> list[dict[str, Any]]:
    """Chats that have nothing in common but their form."""
    return [chat_line(f"{name}-{number}", f"{number} is a number. Say more.", tokens=tokens) for number in range(count)]


def assert_whole(batches: Quickstart, name: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Wait for the end: every line has one whole answer, in the input's order, and counts and usage are exact.

    Gives the result lines.
    """
    status = batches.wait(name, "completed", seconds=420)["status"]
    assert status["requestCounts"] == {"total": len(lines), "completed": len(lines), "failed": 0}
    assert not {"errors", "retry", "errorCodes"} & set(status)
    results = batches.lines_at(status["output"]["uri"])
    assert [line["custom_id"] for line in results] == [line["custom_id"] for line in lines]
    assert {line["response"]["status_code"] for line in results} == {200}
    usages = [line["response"]["body"]["usage"] for line in results]
    assert [usage.get("completion_tokens", 0) for usage in usages] == [
        line["body"].get("max_tokens", 0) for line in lines
    ]
    usage = status["usage"]
    assert usage["inputTokens"] == sum(one["prompt_tokens"] for one in usages)
    assert usage["outputTokens"] == sum(one.get("completion_tokens", 0) for one in usages)
    assert usage["totalTokens"] == sum(one["total_tokens"] for one in usages)
    assert usage.get("cachedTokens", 0) == sum(cached_tokens(line) for line in results)
    return results


def cached_tokens(result: dict[str, Any]) -> int:
    """Tokens of a result's prompt that the server had in its prefix cache."""
    details = result["response"]["body"]["usage"].get("prompt_tokens_details") or {}
    return int(details.get("cached_tokens") or 0)
