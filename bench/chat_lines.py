"""An input of short chats, each of its own: what is sent to a real server by every contender."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from load import PATH
from random_texts import random_texts

WORDS, PROMPT_BYTES = 2000, 80
"""A prompt is shorter than a block of the prefix cache: nobody finds in it what another one has left there."""


def chat_bodies(count: int, model: str, max_tokens: int, seed: int) -> Iterator[dict[str, Any]]:
    """Give so many requests; all answers have `max_tokens`, so that each contender has the same work done."""
    text = random_texts(random.Random(seed), WORDS)
    for _ in range(count):
        message = {"role": "user", "content": text(PROMPT_BYTES)}
        yield {"model": model, "messages": [message], "max_tokens": max_tokens, "ignore_eos": True}


def write_chats(path: Path, count: int, *, model: str, max_tokens: int, seed: int = 1) -> None:
    """Write the input."""
    with path.open("w") as file:
        for number, body in enumerate(chat_bodies(count, model, max_tokens, seed)):
            line = {"custom_id": f"line-{number}", "method": "POST", "url": PATH, "body": body}
            file.write(json.dumps(line) + "\n")


def read_bodies(path: Path, count: int) -> list[bytes]:
    """Read the first so many bodies of an input, as they are sent."""
    with path.open("rb") as file:
        return [json.dumps(json.loads(line)["body"]).encode() for line, _ in zip(file, range(count), strict=False)]
