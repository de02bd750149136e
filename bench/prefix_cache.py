"""What the order of sending does to a real server's prefix cache.

    python bench/prefix_cache.py                          # a vLLM with a small cache, started for it (make vllm)
    python bench/prefix_cache.py http://127.0.0.1:8000    # one that runs

The input mixes lines of many long system prompts, together more tokens than the cache holds. It is sent in the file's
order and in others, in turn, each time with new texts, so that no run finds the cache of another. Hits are the
server's own count (vllm:prefix_cache_hits and queries, in tokens). The server must be idle otherwise, and one prompt of
--prefix-bytes must fit its context. See bench/README.md.
"""

import argparse
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine_watch import read_text, served_model
from orders import ORDERS
from random_texts import random_texts
from servers.vllm import vllm_or
from worker_processes import Work, open_work, run_workers, write_input

VLLM_FLAGS = ("--max-model-len", "2048", "--num-gpu-blocks-override", "192")
"""192 blocks of 128 tokens are fewer than half of what the prefixes are by default."""
LINES_PER_SHARD = 1000
ANSWER_TOKENS, MOST_ANSWER_TOKENS, TAIL = 4, 100, 1.5
"""Lengths of answers are heavy-tailed: a Pareto distribution from the first, cut at the second, of this shape."""
COUNTER = re.compile(r"^vllm:prefix_cache_(queries|hits)_total\{.*\} (\S+)$", re.MULTILINE)
CACHE = re.compile(r'kv_cache_size_tokens="(\d+)"')


@dataclass(frozen=True, slots=True)
class Input:
    lines: int
    prefixes: int
    prefix_bytes: int
    question_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    queried: float
    """Prompt tokens that were looked up."""
    hits: float
    seconds: float


def bodies(wanted: Input, model: str, seed: int) -> Iterator[dict[str, Any]]:
    """Requests whose system prompts follow one another by chance; texts of their own for each seed."""
    chance = random.Random(seed)
    text = random_texts(chance, 2000)
    prefixes = [text(wanted.prefix_bytes) for _ in range(wanted.prefixes)]
    for _ in range(wanted.lines):
        system = {"role": "system", "content": chance.choice(prefixes)}
        user = {"role": "user", "content": text(wanted.question_bytes)}
        tokens = min(MOST_ANSWER_TOKENS, int(ANSWER_TOKENS * chance.paretovariate(TAIL)))
        yield {"model": model, "messages": [system, user], "max_tokens": tokens, "ignore_eos": True}


def counters(url: str) -> dict[str, float]:
    found = {name: float(value) for name, value in COUNTER.findall(read_text(f"{url}/metrics"))}
    if not found:
        raise RuntimeError(f"{url}/metrics counts no prefix cache: it must be a vLLM with prefix caching")
    return found


def run_once(url: str, made: Input, seed: int, concurrency: int, order: str) -> Result:
    from batchwright.worker.plan import plan

    model = served_model(url)
    with tempfile.TemporaryDirectory(prefix="bench-prefix-") as name:
        work = Work(Path(name), url, LINES_PER_SHARD, 1, concurrency, order)
        write_input(work.folder, bodies(made, model, seed))
        fingerprint = plan(open_work(work)).fingerprint
        before = counters(url)
        ran = run_workers(work, fingerprint)
        after = counters(url)
    return Result(after["queries"] - before["queries"], after["hits"] - before["hits"], ran.seconds)


def show(results: dict[str, list[Result]], made: Input) -> None:
    base = next(iter(results.values()))
    print("\n| order | prompt tokens found in the cache | to compute for each line | lines/s | to the file's order |")
    print("|---|---:|---:|---:|---:|")
    for order, found in results.items():
        share = median(one.hits / one.queried for one in found)
        computed = median((one.queried - one.hits) / made.lines for one in found)
        speed = median(made.lines / one.seconds for one in found)
        ratio = median(file.seconds / one.seconds for file, one in zip(base, found, strict=True))
        print(f"| {order} | {share:.1%} | {computed:.0f} | {speed:.0f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="of a running vLLM; else one is started")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--prefixes", type=int, default=50)
    parser.add_argument("--prefix-bytes", type=int, default=2000)
    parser.add_argument("--question-bytes", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with vllm_or(arguments.url, *VLLM_FLAGS) as url:
        measure(url, arguments)


def measure(url: str, arguments: argparse.Namespace) -> None:
    made = Input(arguments.lines, arguments.prefixes, arguments.prefix_bytes, arguments.question_bytes)
    results: dict[str, list[Result]] = {order: [] for order in ORDERS}
    for number in range(arguments.rounds):
        for order in list(ORDERS)[:: 1 if number % 2 == 0 else -1]:
            seed = random.randrange(1 << 32)
            result = run_once(url, made, seed, arguments.concurrency, order)
            results[order].append(result)
            found = f"{result.hits:.0f} of {result.queried:.0f} tokens"
            print(f"round {number + 1}, {order}: {found}, {result.seconds:.1f} s", flush=True)
    if size := CACHE.search(read_text(f"{url}/metrics")):
        print(f"the server's cache holds {size[1]} tokens")
    show(results, made)


if __name__ == "__main__":
    main()
