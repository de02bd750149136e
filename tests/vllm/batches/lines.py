"""Lines of inputs for the real server, and looking at what became of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx

from vllm.flags import MODEL

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
RESPONSES: Final = "/v1/responses"
EMBEDDINGS: Final = "/v1/embeddings"

RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"


def line(custom_id: str, url: str = CHAT, **body: Any) -> dict[str, Any]:
    """A line; a chat that says its id and is cut after eight tokens, unless `body` says otherwise."""
    if url == CHAT:
        message = {"role": "user", "content": f"Say {custom_id}."}
        body = {"messages": [message], "max_tokens": 8} | body
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": MODEL} | body}


def lines(count: int, **body: Any) -> list[dict[str, Any]]:
    """So many chats."""
    return [line(f"request-{number}", **body) for number in range(count)]


def bodies(results: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The answers' bodies by the lines' ids."""
    return {result["custom_id"]: result["response"]["body"] for result in results}


def texts(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The texts of chats by the lines' ids."""
    return {name: body["choices"][0]["message"]["content"] for name, body in bodies(results).items()}


def gauge(url: str, *names: str) -> int:
    """The sum of some of the engine's metrics, now."""
    answer = httpx.get(f"{url}/metrics", trust_env=False, timeout=30)
    named = tuple(f"{name}{{" for name in names)
    return int(sum(float(text.rsplit(" ", 1)[1]) for text in answer.text.splitlines() if text.startswith(named)))
