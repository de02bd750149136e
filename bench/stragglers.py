"""How long the last lines of a job take, and how long workers idle for them.

    python bench/stragglers.py

Real workers and the tests' model server, which works on so many requests at once and no more. Lengths of answers are
heavy-tailed. Shards are a quarter of the usual size, and a worker has a quarter of the usual requests in flight: so a
shard lasts as long as usual, measured in answers. See bench/README.md.
"""

import argparse
import json
import random
import tempfile
import threading
import time
import urllib.request
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from orders import WORKERS_OWN
from servers.stub import stub
from worker_processes import Work, open_work, run_workers, write_input

WORKERS, CONCURRENCY, SLOTS = 4, 16, 48
SHARD, SMALLEST_SHARD = 256, 64
MEAN_SECONDS = 0.26
SHORTEST_SECONDS, TAIL, LONGEST_SECONDS = 0.1, 1.5, 4.0
"""Of an answer: a Pareto distribution of this shape, cut at forty times the shortest."""
TOKENS_PER_SECOND = 100
PREFIXES = 20
POLL_SECONDS, TIMEOUT_SECONDS = 0.1, 10.0
LATE_SHARE = 0.2
"""Of the time that the work takes at least: by so much the last worker begins late."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What is tried."""

    order: str = WORKERS_OWN
    shard: int = SHARD
    smaller_at_end: bool = False
    """Whether each worker's part of the file ends in a shard of half the size and two of a quarter."""
    known: bool = True
    """Whether each line's max_tokens tells how long its answer takes; else all have the same."""
    late: bool = False

    def __str__(self) -> str:
        size = f"{self.shard}, smaller at the end" if self.smaller_at_end else str(self.shard)
        lengths = "known" if self.known else "unknown"
        return f"| {lengths} | {'one late' if self.late else 'even'} | {self.order} | {size} |"


@dataclass(frozen=True, slots=True)
class Result:
    """Shares of the time that the job took."""

    seconds: float
    last_lines: float
    """From when 95 % of the lines were answered to the end."""
    idle: float
    """Of a worker, from when it was done to the end; the mean."""
    busy: float
    """Of the server's slots."""


@dataclass
class Answered:
    """The number of answers over the time, as the server counts them."""

    url: str
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(over,))
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(POLL_SECONDS):
            stats = request(f"{self.url}/stub/stats")
            self.counts.append(stats["by_status"].get("200", 0))
            self.times.append(time.time())

    def time_of(self, count: int) -> float:
        return self.times[bisect_left(self.counts, count)]


def request(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, data, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(answer.read())


def draw_seconds(lines: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [min(LONGEST_SECONDS, SHORTEST_SECONDS * chance.paretovariate(TAIL)) for _ in range(lines)]


def bodies(seconds: list[float], seed: int, *, known: bool) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for number, delay in enumerate(seconds):
        system = {"role": "system", "content": f"Task {chance.randrange(PREFIXES)}. " * 50}
        user = {"role": "user", "content": f"Line {number}"}
        tokens = round(TOKENS_PER_SECOND * (delay if known else LONGEST_SECONDS))
        stub = {"stub": f"delay={delay:.3f}"}
        yield {"model": "bench", "messages": [system, user], "max_tokens": tokens, "metadata": stub}


def plan_work(work: Work, *, smaller_at_end: bool) -> str:
    """Plan, and give the fingerprint."""
    from batchwright.worker.plan import plan

    stage = open_work(work)
    fingerprint = plan(stage).fingerprint
    if smaller_at_end:
        make_last_smaller(stage, fingerprint)
    return fingerprint


def make_last_smaller(stage: Any, fingerprint: str) -> None:
    """Join the shards of a plan of smallest ones, but for the last ones of each worker's part."""
    import msgspec

    from batchwright.batchfile.plan_record import PlanRecord, Shard, decode_record, encode_record
    from batchwright.worker.run.claims import own_part

    store, key = stage.output_store, stage.layout.work(fingerprint).plan
    planned = decode_record(store.read(key), PlanRecord)
    whole = SHARD // SMALLEST_SHARD
    shards: list[Shard] = []
    for index in range(WORKERS):
        part = own_part(len(planned.shards), index, WORKERS)
        sizes = [whole] * (len(part) // whole - 1) + [whole // 2, whole // 4, whole // 4]
        first = part.start
        for size in sizes:
            some = planned.shards[first : first + size]
            lines = sum(shard.lines for shard in some)
            shards.append(Shard(some[0].start, some[-1].end, some[0].first_line, lines))
            first += size
    assert sum(shard.lines for shard in shards) == planned.lines, "a plan of whole shards for each worker"
    store.write(key, encode_record(msgspec.structs.replace(planned, shards=tuple(shards))))


def run_once(url: str, variant: Variant, lines: int, seed: int) -> Result:
    seconds = draw_seconds(lines, seed)
    request(f"{url}/stub/reset", {})
    request(f"{url}/stub/switches", {"slots": SLOTS})
    with tempfile.TemporaryDirectory(prefix="bench-stragglers-") as name:
        planned = SMALLEST_SHARD if variant.smaller_at_end else variant.shard
        work = Work(Path(name), url, planned, WORKERS, CONCURRENCY, variant.order)
        write_input(work.folder, bodies(seconds, seed, known=variant.known))
        fingerprint = plan_work(work, smaller_at_end=variant.smaller_at_end)
        late = {WORKERS - 1: LATE_SHARE * lines * MEAN_SECONDS / SLOTS} if variant.late else {}
        answered = Answered(url)
        with answered.watched():
            ran = run_workers(work, fingerprint, late)
    end = ran.began + ran.seconds
    return Result(
        seconds=ran.seconds,
        last_lines=(end - answered.time_of(lines * 95 // 100)) / ran.seconds,
        idle=sum(end - finished for finished in ran.finished) / len(ran.finished) / ran.seconds,
        busy=sum(seconds) / SLOTS / ran.seconds,
    )


VARIANTS = [
    *(Variant(order=order) for order in ("as in the file", "by prefix alone", "by length alone", WORKERS_OWN)),
    Variant(shard=SHARD // 2),
    Variant(shard=2 * SHARD),
    Variant(smaller_at_end=True),
    Variant(late=True, order="as in the file"),
    Variant(late=True),
    Variant(late=True, smaller_at_end=True),
    Variant(known=False),
    Variant(known=False, smaller_at_end=True),
]
QUICK = [Variant(order="as in the file"), Variant()]


def show(results: dict[Variant, list[Result]]) -> None:
    print("\n| lengths | workers | order in a shard | lines for each shard | last 5 % | idle | server busy |")
    print("|---|---|---|---|---:|---:|---:|")
    for variant, found in results.items():
        last_lines = median(one.last_lines for one in found)
        idle = median(one.idle for one in found)
        busy = median(one.busy for one in found)
        print(f"{variant} {last_lines:.1%} | {idle:.1%} | {busy:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=6144, help=f"a multiple of {WORKERS * SHARD}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of the file's order and the worker's")
    arguments = parser.parse_args()
    variants = QUICK if arguments.quick else VARIANTS
    results: dict[Variant, list[Result]] = {variant: [] for variant in variants}
    with stub(core=None) as url:
        for number in range(1 if arguments.quick else arguments.rounds):
            for variant in variants[:: 1 if number % 2 == 0 else -1]:
                result = run_once(url, variant, arguments.lines, seed=number)
                results[variant].append(result)
                print(f"{variant} {result.last_lines:.1%} {result.idle:.1%} {result.seconds:.1f} s", flush=True)
    show(results)


if __name__ == "__main__":
    main()
