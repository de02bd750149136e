"""Throughput by requests in flight, of a bare client and of workers that share them, on a real vLLM.

    python bench/in_flight.py [--in-flight N ...] [--workers N ...] [--lines N] [--rounds R]
    python bench/in_flight.py --url http://127.0.0.1:8000 --input requests.jsonl    # a server and lines of one's own

What counts for the server is the product of spec.sharding.parallelism and spec.requests.maxConcurrency: this shows it
beside the knee of the bare client. Rates are those of the middle of each turn, by the server's own count, so neither
the start of processes nor the last requests are in them. See bench/README.md.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

from bare_client import measure_bare
from chat_lines import write_chats
from engine_watch import Steady, served_model, watched
from servers.vllm import FLAGS, vllm_or
from worker_processes import Work, open_work, run_workers

MAX_TOKENS = 8
LEAST_LINES_PER_SHARD, SHARDS_PER_WORKER = 50, 4
BARE = 0
"""The bare client, in place of a number of workers."""

Turns = Mapping[tuple[int, int], Sequence[Steady]]
"""By requests in flight and workers."""


def send_bare(url: str, folder: Path, lines: int, in_flight: int) -> Steady:
    with watched(url) as watch:
        measure_bare(url, folder / "input.jsonl", lines, in_flight)
    return watch.steady(lines)


def run_batch_workers(url: str, folder: Path, lines: int, workers: int, in_flight: int) -> Steady:
    """Let so many workers do the input with so many requests in flight together."""
    from batchwright.worker.plan import plan

    shard = max(LEAST_LINES_PER_SHARD, lines // (SHARDS_PER_WORKER * workers))
    with tempfile.TemporaryDirectory(prefix="bench-in-flight-") as name:
        Path(name, "input.jsonl").hardlink_to(folder / "input.jsonl")
        work = Work(Path(name), url, shard, workers, in_flight // workers)
        fingerprint = plan(open_work(work)).fingerprint
        with watched(url) as watch:
            run_workers(work, fingerprint)
    return watch.steady(lines)


def write_input(path: Path, source: Path | None, lines: int, url: str) -> int:
    """Write the first lines of the source, or short chats for the server's model; tells how many there are."""
    if source is None:
        model = served_model(url)
        write_chats(path, lines, model=model, max_tokens=MAX_TOKENS)
        return lines
    with source.open("rb") as file:
        chosen = list(islice(file, lines))
    path.write_bytes(b"".join(chosen))
    return len(chosen)


def show(turns: Turns) -> None:
    columns = sorted({workers for _, workers in turns})
    print(f"\n| in flight | {' | '.join(map(heading, columns))} |")
    print(f"|---:|{'---:|' * len(columns)}")
    for in_flight in sorted({in_flight for in_flight, _ in turns}):
        cells = [cell(turns.get((in_flight, workers), ()), in_flight, workers) for workers in columns]
        print(f"| {in_flight} | {' | '.join(cells)} |")
    rates = {in_flight: median(one.rate for one in own) for (in_flight, who), own in turns.items() if who == BARE}
    print(f"\nThe bare client's knee: {max(rates, key=lambda in_flight: rates[in_flight])} in flight.")


def heading(workers: int) -> str:
    return "bare client" if workers == BARE else f"{workers} worker{'s' if workers > 1 else ''}"


def cell(turns: Sequence[Steady], in_flight: int, workers: int) -> str:
    if not turns:
        return ""
    rate = f"{median(turn.rate for turn in turns):.0f}/s"
    return rate if workers == BARE else f"{rate} ({workers} x {in_flight // workers})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="of a vLLM that runs and has nothing else to do; else one is started")
    parser.add_argument("--input", type=Path, help="whose first lines are sent, in place of short chats")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 32, 64, 128, 256, 512])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--lines", type=int, default=3000, help="of a turn (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    pairs = [(in_flight, workers) for in_flight in options.in_flight for workers in (BARE, *options.workers)]
    turns: dict[tuple[int, int], list[Steady]] = {pair: [] for pair in pairs}
    with tempfile.TemporaryDirectory(prefix="bench-in-flight-") as name, vllm_or(options.url, *FLAGS) as url:
        folder = Path(name)
        lines = write_input(folder / "input.jsonl", options.input, options.lines, url)
        send_bare(url, folder, lines, max(options.in_flight))  # warms the server up
        for number in range(options.rounds):
            for in_flight, workers in pairs[:: -1 if number % 2 else 1]:
                if workers == BARE:
                    turn = send_bare(url, folder, lines, in_flight)
                else:
                    turn = run_batch_workers(url, folder, lines, workers, in_flight)
                turns[in_flight, workers].append(turn)
                print(f"round {number + 1}, {in_flight} in flight, {heading(workers)}: {turn}", flush=True)
    show(turns)


if __name__ == "__main__":
    main()
