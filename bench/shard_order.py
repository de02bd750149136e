"""What it costs to put the lines of a shard in order: CPU time for each line, beside reading it.

python bench/shard_order.py
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from random_texts import random_texts

from batchwright.batchfile.request_line import read_request
from batchwright.worker.run.shard_order import sending_order

LINES, ROUNDS = 1000, 15
CHANCE = random.Random(1)
text = random_texts(CHANCE, 3000)


def lines(prefixes: list[str], question_bytes: int) -> Iterator[bytes]:
    for number in range(LINES):
        messages = [{"role": "user", "content": text(question_bytes)}]
        if prefixes:
            messages.insert(0, {"role": "system", "content": CHANCE.choice(prefixes)})
        body: dict[str, Any] = {"model": "m", "messages": messages, "max_tokens": CHANCE.randint(10, 1000)}
        line = {"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        yield json.dumps(line).encode()


def fastest(call: Callable[[], object]) -> float:
    """CPU time in microseconds for each line: of several rounds the least, since others slow each of them."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken) / LINES * 1e6


def main() -> None:
    some = [text(4000) for _ in range(20)]
    inputs = {
        "0.5 KB, nothing in common": lines([], 400),
        "1 KB, nothing in common": lines([], 900),
        "4.5 KB, one system prompt": lines(some[:1], 400),
        "4.5 KB, 20 system prompts": lines(some, 400),
        "6.5 KB, 30 prompts with a common beginning": lines([some[0] + text(2000) for _ in range(30)], 400),
        "16 KB, nothing in common": lines([], 16_000),
    }
    print("| lines | reading, µs | putting in order, µs |")
    print("|---|---:|---:|")
    for name, made in inputs.items():
        read = list(made)
        bodies = [read_request(line).body for line in read]
        reading = fastest(lambda read=read: [read_request(line) for line in read])
        ordering = fastest(lambda bodies=bodies: sending_order(bodies))
        print(f"| {name} | {reading:.1f} | {ordering:.1f} |")


if __name__ == "__main__":
    main()
