"""Rules for requests in flight, side by side on models of a server whose knee is known.

    python -m bench.concurrency.main [--scenario TEXT] [--seeds N] [--plot FILE]

Nothing here measures time: the same seeds give the same numbers on every machine.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.concurrency.candidates import CANDIDATES
from bench.concurrency.plot import Panel, svg
from bench.concurrency.scenarios import BATCHING, SLOTS, Scenario, blind, play, refusing, scenarios
from bench.concurrency.score import Best, Score, best_fixed, score, shown, together

KINDS = {
    "metrics": "Servers with vLLM's metrics",
    "blind": "Servers without metrics, with an endless queue",
    "429": "Servers without metrics that refuse what their queue does not hold",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="", help="only those whose name holds this text")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    for kind, title in KINDS.items():
        chosen = [one for one in scenarios() if one.name.endswith(kind) and options.scenario in one.name]
        if chosen:
            print_kind(title, chosen, seeds)
    if options.plot:
        options.plot.write_text(picture())


def print_kind(title: str, chosen: Sequence[Scenario], seeds: Sequence[int]) -> None:
    best = {one.name: best_fixed(one, seeds[0]) for one in chosen}
    scores = {
        (one.name, name): together([score(one, best[one.name], make, seed) for seed in seeds])
        for one in chosen
        for name, make in CANDIDATES.items()
    }
    print(f"### {title}\n")
    print_summary(chosen, scores)
    print_throughput(chosen, scores, best)


def print_summary(chosen: Sequence[Scenario], scores: dict[tuple[str, str], Score]) -> None:
    print(
        "| rule | throughput | worst | seconds to full | queue | longest | fairness | refusals | interactive p99"
        " | recovery |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for name in CANDIDATES:
        own = [scores[one.name, name] for one in chosen]
        mean = together(own)
        cells = [
            shown(mean.throughput, 2),
            shown(min(one.throughput for one in own), 2),
            shown(mean.seconds_to_full, 1),
            shown(mean.queue, 2),
            str(mean.worst_queue),
            shown(mean.fairness, 2),
            shown(mean.refused, 2),
            shown(mean.people, 2),
            shown(mean.recovery, 1),
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def print_throughput(chosen: Sequence[Scenario], scores: dict[tuple[str, str], Score], best: dict[str, Best]) -> None:
    print(f"| throughput, and queue | best fixed | {' | '.join(CANDIDATES)} |\n|---|{'---|' * (1 + len(CANDIDATES))}")
    for one in chosen:
        cells = []
        for name in CANDIDATES:
            own = scores[one.name, name]
            people = "" if own.people is None else f", p99 {shown(own.people, 1)}"
            cells.append(f"{own.throughput:.2f}, {own.queue:.2f}{people}")
        print(f"| {one.name} | {best[one.name].limit} | {' | '.join(cells)} |")
    print()


def picture() -> str:
    """Requests in flight of all workers together, while their number changes, and while the knee moves."""
    shown_rules = ("adaptive", "AIMD on the queue", "Gradient2", "Vegas", "hill climbing", "AIMD on errors")
    few = Scenario("", SLOTS, seconds=200, joining=[(50, 3), (100, 4), (150, -4)])
    moving = Scenario("", SLOTS, workers=4, seconds=200, changes=[(70, replace(SLOTS, slots=96)), (140, SLOTS)])
    outage = Scenario("", SLOTS, workers=4, seconds=200, outage=(80, 110))
    workers = {0.0: "1 worker", 50.0: "4", 100.0: "8", 150.0: "4"}
    flat = [(0.0, 48.0), (200.0, 48.0)]
    steps = [(0.0, 48.0), (70.0, 48.0), (70.0, 96.0), (140.0, 96.0), (140.0, 48.0), (200.0, 48.0)]
    panels = [
        panel("Workers come and go; metrics", few, shown_rules, flat, workers),
        panel("The same without metrics", replace(few, server=blind(SLOTS)), shown_rules, flat, workers),
        panel("The same, 429 beyond 12 waiting", replace(few, server=refusing(SLOTS)), shown_rules, flat, workers),
        panel("4 workers, the knee moves; metrics", moving, shown_rules, steps, {70.0: "48 to 96", 140.0: "96 to 48"}),
        panel("4 workers, an outage; metrics", outage, shown_rules, flat, {80.0: "away", 110.0: "back"}),
        panel(
            "8 workers, batching, no knee before 256 slots; metrics",
            Scenario("", BATCHING, workers=8, seconds=200),
            shown_rules,
            [(0.0, 256.0), (200.0, 256.0)],
            {},
            top=400,
        ),
    ]
    return svg(panels)


def panel(
    title: str,
    scenario: Scenario,
    rules: Sequence[str],
    knee: Sequence[tuple[float, float]],
    marks: dict[float, str],
    *,
    top: float = 200,
) -> Panel:
    lines = {}
    for name in rules:
        trace = play(scenario, CANDIDATES[name]).trace
        points = list(zip(trace.seconds, trace.in_flight, strict=True))
        lines[name] = [(time, float(count)) for time, count in points[::4]]
    return Panel(f"{title}: requests in flight, all together", scenario.seconds, top, lines, knee, marks)


if __name__ == "__main__":
    main()
