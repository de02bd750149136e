"""A BatchJob's work, end to end with S3, beside a bare client and vLLM's own batch runner, on a real vLLM.

    python bench/throughput.py [--lines N] [--rounds R] [--contenders NAME ...] [--apart]

All send the same input of short chats to a server that is started for it (`make vllm` installs it) and has nothing else
to do; the batch runner has an engine of its own. The bare client is measured at several concurrencies first; the best
of them is the knee, and the client has a turn with it in each round. Every other round runs backwards, and ratios are
taken within a round. Server and clients share the machine, or with --apart each have cores of their own. See
bench/README.md.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from bare_client import measure_bare
from batch_stages import BatchSettings, BatchStages
from chat_lines import write_chats
from engine_runner import run_batch
from engine_watch import watched
from servers.s3 import Bucket, s3
from servers.vllm import FLAGS, MODEL, Vllm, vllm

BARE = "bare"
CONCURRENCIES = (8, 32, 64, 128, 256, 512)
WARM_UP_LINES, WARM_UP_CONCURRENCY = 500, 32
MAX_TOKENS = 8
CONCURRENCY_HELP = "of the bare client, to find the knee among them; a single one is taken for it"


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of one contender's turn."""

    rate: float
    """Requests a second, end to end: from when to when, the contender's own clock says."""
    steady: float | None
    """Requests a second from a tenth to nine tenths of them, by the server's count. None: it counts late."""
    running: float
    """Requests in the engine in that time."""
    client_cpu: float | None
    """CPU seconds for 1,000 requests, of all processes but server and store. None: can't be told from the server's."""
    server_cpu: float | None
    stages: tuple[float, ...] = ()
    """Seconds of plan, run and merge."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all turns have in common."""

    input: Path
    lines: int
    server: Vllm
    bucket: Bucket
    knee: int


@dataclass(frozen=True, slots=True)
class Contender:
    label: str
    """With the knee in place of {knee}."""
    take_turn: Callable[[Scene], Turn]


def send_bare(scene: Scene, lines: int, concurrency: int) -> Turn:
    """Let the bare client send the first lines of the input."""
    cpu = scene.server.cpu_seconds()
    with watched(scene.server.url) as watch:
        ran = measure_bare(scene.server.url, scene.input, lines, concurrency)
    cpu = scene.server.cpu_seconds() - cpu
    steady, thousands = watch.steady(lines), lines / 1000
    return Turn(lines / ran.seconds, steady.rate, steady.running, ran.cpu_seconds / thousands, cpu / thousands)


def run_job(settings: Callable[[int], BatchSettings], scene: Scene) -> Turn:
    """Let processes as a BatchJob's pods do the whole input. The settings depend on the knee."""
    chosen, thousands = settings(scene.knee), scene.lines / 1000
    spec = {**scene.bucket.job_spec(), **chosen.spec()}
    with tempfile.TemporaryDirectory(prefix="bench-throughput-") as name:
        stages = BatchStages.create(Path(name), spec, scene.server.url, scene.bucket.environment)
        cpu = scene.server.cpu_seconds()
        with watched(scene.server.url) as watch:
            ran = stages.run_all(scene.lines, chosen.workers)
        cpu = scene.server.cpu_seconds() - cpu
    steady = watch.steady(scene.lines)
    took = (ran.plan_seconds, ran.run_seconds, ran.merge_seconds)
    rate = scene.lines / ran.seconds
    return Turn(rate, steady.rate, steady.running, ran.cpu_seconds / thousands, cpu / thousands, took)


def run_vllms_own(scene: Scene) -> Turn:
    ran = run_batch(scene.input, scene.lines, FLAGS)
    return Turn(scene.lines / ran.seconds, None, ran.running, None, None)


def job(label: str, settings: Callable[[int], BatchSettings]) -> Contender:
    return Contender(f"**BatchJob**, {label}", partial(run_job, settings))


CONTENDERS: Mapping[str, Contender] = {
    BARE: Contender("bare aiohttp client, {knee} in flight", lambda s: send_bare(s, s.lines, s.knee)),
    "adaptive": job("2 workers, adaptive, up to 256 each", lambda _: BatchSettings(2, 256, adaptive=True)),
    "adaptive-one": job("1 worker, adaptive, up to 512", lambda _: BatchSettings(1, 512, adaptive=True)),
    "fixed": job("1 worker, fixed, {knee}", lambda knee: BatchSettings(1, knee, adaptive=False)),
    "fixed-two": job("2 workers, fixed, {knee} together", lambda knee: BatchSettings(2, knee // 2, adaptive=False)),
    "defaults": job(
        "all by default: 8 workers, adaptive, up to 64 each", lambda _: BatchSettings(8, 64, adaptive=True)
    ),
    "run-batch": Contender("vLLM's own `run-batch`, without HTTP and S3", run_vllms_own),
}
DEFAULT = (BARE, "adaptive", "fixed", "run-batch")


def find_knee(scene: Scene, concurrencies: Sequence[int], rounds: int, lines: int) -> dict[int, list[Turn]]:
    """Measure the bare client at each concurrency."""
    found: dict[int, list[Turn]] = {concurrency: [] for concurrency in concurrencies}
    for number in range(rounds):
        for concurrency in concurrencies[:: -1 if number % 2 else 1]:
            found[concurrency].append(send_bare(scene, lines, concurrency))
            tell(f"round {number + 1}, bare client, {concurrency} in flight: {found[concurrency][-1].rate:.0f}/s")
    return found


def best(found: Mapping[int, Sequence[Turn]]) -> int:
    return max(found, key=lambda concurrency: median(turn.rate for turn in found[concurrency]))


def compare(scene: Scene, names: Sequence[str], rounds: int) -> dict[str, list[Turn]]:
    """Give each contender a turn in each round."""
    turns: dict[str, list[Turn]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[:: -1 if number % 2 else 1]:
            turns[name].append(CONTENDERS[name].take_turn(scene))
            tell(f"round {number + 1}, {name}: {turns[name][-1]}")
    return turns


def show_knee(found: Mapping[int, Sequence[Turn]]) -> None:
    print("\n| in flight | requests/s | requests in the engine | client: CPU s per 1,000 | server: CPU s per 1,000 |")
    print("|---:|---:|---:|---:|---:|")
    for concurrency, turns in found.items():
        cells = [f"{median(turn.rate for turn in turns):.0f}", f"{median(turn.running for turn in turns):.0f}"]
        cells += [rounded((one.client_cpu for one in turns), 2), rounded((one.server_cpu for one in turns), 2)]
        print(f"| {concurrency} | {' | '.join(cells)} |")
    print(f"\nThe knee: {best(found)} in flight.")


def show(turns: Mapping[str, Sequence[Turn]], knee: int) -> None:
    print("\n| | requests/s, end to end | to the bare client | in the middle | to the bare client |", end="")
    print(" in the engine | client: CPU s per 1,000 | server: CPU s per 1,000 | plan, run, merge, s |")
    print(f"|---|{'---:|' * 8}")
    for name, own in turns.items():
        base = turns[BARE]
        cells = [
            f"{median(turn.rate for turn in own):.0f}",
            f"{median(one.rate / other.rate for one, other in zip(own, base, strict=True)):.2f}",
            rounded((turn.steady for turn in own), 0),
            rounded((quotient(one.steady, other.steady) for one, other in zip(own, base, strict=True)), 2),
            f"{median(turn.running for turn in own):.0f}",
            rounded((turn.client_cpu for turn in own), 2),
            rounded((turn.server_cpu for turn in own), 2),
            ", ".join(f"{median(parts):.1f}" for parts in zip(*(turn.stages for turn in own), strict=True)),
        ]
        print(f"| {CONTENDERS[name].label.format(knee=knee)} | {' | '.join(cells)} |")


def quotient(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def rounded(values: Iterable[float | None], digits: int) -> str:
    """The median of the values that are known; nothing where none is."""
    known = [one for one in values if one is not None]
    return f"{median(known):.{digits}f}" if known else ""


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def first_half_of_the_cores() -> Iterator[None]:
    """What starts in the block keeps to them; what starts later keeps to the others."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    if not half:
        raise SystemExit("--apart needs two cores or more")
    os.sched_setaffinity(0, cores[:half])
    yield
    os.sched_setaffinity(0, cores[half:])


@contextmanager
def setting(lines: int, *, apart: bool) -> Iterator[Scene]:
    """Start the servers, with an input of so many lines; the knee is not known yet."""
    with tempfile.TemporaryDirectory(prefix="bench-throughput-") as name:
        source = Path(name, "input.jsonl")
        write_chats(source, lines, model=MODEL, max_tokens=MAX_TOKENS)
        with ExitStack() as running:
            with first_half_of_the_cores() if apart else nullcontext():
                server = running.enter_context(vllm(*FLAGS))
            bucket = running.enter_context(s3(source))
            measure_bare(server.url, source, min(lines, WARM_UP_LINES), WARM_UP_CONCURRENCY)
            yield Scene(source, lines, server, bucket, knee=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=30_000, help="of the input (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--knee-lines", type=int, default=4000, help="for each concurrency (%(default)s)")
    parser.add_argument("--knee-rounds", type=int, default=2)
    parser.add_argument("--concurrency", type=int, nargs="+", default=list(CONCURRENCIES), help=CONCURRENCY_HELP)
    parser.add_argument(
        "--apart", action="store_true", help="give half of the cores to the server, the others to the rest"
    )
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(DEFAULT))
    options = parser.parse_args()
    names = [BARE, *(name for name in options.contenders if name != BARE)]
    apart = ", half of them the server's own" if options.apart else ""
    print(f"{os.cpu_count()} cores{apart}; load {os.getloadavg()[0]:.1f} at the start; {options.lines} lines; {FLAGS}")
    with setting(options.lines, apart=options.apart) as scene:
        knee, *others = options.concurrency
        if others:
            lines = min(options.lines, options.knee_lines)
            found = find_knee(scene, options.concurrency, options.knee_rounds, lines)
            show_knee(found)
            knee = best(found)
        show(compare(replace(scene, knee=knee), names, options.rounds), knee)


if __name__ == "__main__":
    main()
