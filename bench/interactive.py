"""What batch traffic does to interactive traffic on the same server, and how much batch gets done beside it.

    python bench/interactive.py [--rounds N] [--seconds S] [--slots N] [--rate R]
    python bench/interactive.py --vllm                                      # a real vLLM, started for it
    python bench/interactive.py --url http://127.0.0.1:8000 --model NAME    # a vLLM that is idle otherwise

The server is the tests' stub with so many slots and a queue before them, unless another is asked for. People come
at random, `--rate` a second, as one process; a worker with an input that does not end is another. Each round measures
people alone and then beside a worker under each of the rules; every other round runs backwards.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_watch import metric
from load import PATH, make_body, make_line
from servers.vllm import MODEL, vllm
from stages import open_stage_in

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

DELAY = "0.1-0.3"
MEAN_SECONDS = 0.2
START_SECONDS = 60.0
SETTLING_SECONDS = 8.0
LINES = 20_000
VLLM_FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "32", "--scheduling-policy", "priority")
VLLM_DEFAULTS: Mapping[str, Any] = {"model": MODEL, "rate": 8.0, "max_tokens": 48}
"""A tiny model on two cores, which the clients share, takes no more."""
RULES: Mapping[str, Mapping[str, Any] | None] = {
    "people alone": None,
    "adaptive, at most 256": {"maxConcurrency": 256},
    "adaptive, and priority 10": {"maxConcurrency": 256, "priority": 10},
    "64 at once": {"maxConcurrency": 64, "concurrency": "Fixed"},
    "256 at once": {"maxConcurrency": 256, "concurrency": "Fixed"},
    "256 at once, and priority 10": {"maxConcurrency": 256, "concurrency": "Fixed", "priority": 10},
}


@dataclass(frozen=True, slots=True)
class Turn:
    p50: float
    p99: float
    batch: float
    """Batch requests answered a second."""
    waiting: float
    """Requests in the server's queue, on average."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--url")
    parser.add_argument("--vllm", action="store_true", help="start a vLLM (make vllm), with few people for it")
    parser.add_argument("--model", default="bench")
    parser.add_argument("--max-tokens", type=int, default=64, help="of an answer to batch; people get half of it")
    options = parser.parse_args()
    if options.vllm:
        parser.set_defaults(**VLLM_DEFAULTS)
        options = parser.parse_args()
        with vllm(*VLLM_FLAGS) as server:
            options.url = server.url
            measure(options)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    turns: dict[str, list[Turn]] = {name: [] for name in RULES}
    for number in range(options.rounds):
        for name in list(RULES)[:: -1 if number % 2 else 1]:
            turns[name].append(take_turn(RULES[name], options, seed=number))
            print(f"round {number + 1}: {name}: {turns[name][-1]}", file=sys.stderr)
    print_table(turns, left=None if options.url else options.slots / MEAN_SECONDS - options.rate)


def print_table(turns: Mapping[str, Sequence[Turn]], left: float | None) -> None:
    """`left`: batch requests a second for which there is room; None takes the most that any rule had."""
    alone = turns["people alone"]
    share = "of what is left" if left else "of the most that any had"
    print(f"| | interactive p50 | p99 | p99 to alone | batch requests/s | {share} | waiting in the server |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    left = left or max(statistics.median(one.batch for one in own) for own in turns.values())
    for name, own in turns.items():
        ratio = statistics.median(one.p99 / base.p99 for one, base in zip(own, alone, strict=True))
        batch = statistics.median(one.batch for one in own)
        cells = [
            f"{1000 * statistics.median(one.p50 for one in own):.0f} ms",
            f"{1000 * statistics.median(one.p99 for one in own):.0f} ms",
            f"{ratio:.2f}",
            f"{batch:.0f}" if RULES[name] else "",
            f"{100 * batch / left:.0f} %" if RULES[name] else "",
            f"{statistics.median(one.waiting for one in own):.1f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def take_turn(requests: Mapping[str, Any] | None, options: argparse.Namespace, seed: int) -> Turn:
    with serving(options) as url, working(url, requests, options):
        return asyncio.run(watch(url, options, random.Random(seed), worker=requests is not None))


@contextmanager
def serving(options: argparse.Namespace) -> Iterator[str]:
    """Give the server's URL; a stub of its own for each turn, where none is named."""
    from stub.harness import stub_process

    if options.url:
        yield options.url
        return
    with stub_process(delay=DELAY, slots=options.slots, models=[options.model]) as stub:
        yield stub.url


def body(number: int, model: str, tokens: int) -> bytes:
    return json.dumps({**json.loads(make_body(number)), "model": model, "max_tokens": tokens}).encode()


@contextmanager
def working(url: str, requests: Mapping[str, Any] | None, options: argparse.Namespace) -> Iterator[None]:
    """Have a worker at work, or none."""
    if requests is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="bench-interactive-") as folder:
        arguments = (Path(folder), url, dict(requests), options.model, options.max_tokens)
        child = multiprocessing.get_context("spawn").Process(target=work, args=arguments, daemon=True)
        child.start()
        try:
            yield
            if not child.is_alive():
                raise RuntimeError(f"the worker ended while it was measured, with {child.exitcode}")
        finally:
            child.kill()
            child.join(timeout=10)


def work(folder: Path, url: str, requests: dict[str, Any], model: str, tokens: int) -> None:
    from batchwright.worker.plan import plan
    from batchwright.worker.run.stage_run import run

    with (folder / "input.jsonl").open("wb") as file:
        for number in range(LINES):
            file.write(make_line(number, body(number, model, tokens)))
    stage = open_stage_in(folder, url, requests=requests)
    planned = plan(stage)
    asyncio.run(run(stage, fingerprint=planned.fingerprint, run=1, index=0, workers=1, started=lambda *_: None))


async def watch(url: str, options: argparse.Namespace, chance: random.Random, *, worker: bool) -> Turn:
    """Send what people send, and measure once everything has settled. With a worker, wait for its first answers."""
    import aiohttp

    latencies: list[float] = []
    waiting: list[float] = []
    sent: set[asyncio.Task[None]] = set()

    async def ask(number: int) -> None:
        began = time.perf_counter()
        data = body(number, options.model, options.max_tokens // 2)
        async with session.post(url + PATH, data=data) as response:
            await response.read()
            response.raise_for_status()
        latencies.append(time.perf_counter() - began)

    async def come_and_go(seconds: float) -> None:
        next_at = time.perf_counter()
        end = next_at + seconds
        while next_at < end:
            await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
            task = asyncio.create_task(ask(chance.randrange(1000)))
            sent.add(task)
            task.add_done_callback(sent.discard)
            next_at += chance.expovariate(options.rate)

    async def counted(name: str) -> float:
        async with session.get(f"{url}/metrics") as response:
            return metric(await response.text(), name)

    async def look() -> None:
        while True:
            waiting.append(await counted("num_requests_waiting"))
            await asyncio.sleep(0.25)

    headers = {"Content-Type": "application/json", "X-Vllm-Priority": "0"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:
        async with asyncio.timeout(START_SECONDS):
            started = await counted("request_success_total")
            while worker and await counted("request_success_total") < started + 20:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.1)
        looking = asyncio.create_task(look())
        await come_and_go(SETTLING_SECONDS)
        latencies.clear()
        waiting.clear()
        before, began = await counted("request_success_total"), time.perf_counter()
        await come_and_go(options.seconds)
        answered, seconds = len(latencies), time.perf_counter() - began
        done = await counted("request_success_total") - before
        looking.cancel()
        await asyncio.gather(*sent)
    ordered = sorted(latencies)
    return Turn(
        p50=statistics.median(ordered),
        p99=ordered[int(0.99 * len(ordered))],
        batch=max(0.0, done - answered) / seconds,
        waiting=statistics.fmean(waiting),
    )


if __name__ == "__main__":
    main()
