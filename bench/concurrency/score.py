"""What a rule is worth in a scenario, beside the best fixed limit that could have been chosen for it."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.concurrency.scenarios import MakeLimit, Played, Scenario, play

from batchwright.worker.server.concurrency import FixedLimit

FULL = 0.9
"""A server is full at so much of what the best fixed limit keeps at work."""
FIXED = (6, 12, 24, 32, 48, 96, 256, 512)


@dataclass(frozen=True, slots=True)
class Best:
    """What the best fixed limit does: every number here was found by trying them all."""

    limit: int
    rate: float
    running: float
    people_p99: float | None
    """Of the interactive requests alone, without any batch traffic."""


@dataclass(frozen=True, slots=True)
class Score:
    throughput: float
    """To the best fixed limit's."""
    seconds_to_full: float
    queue: float
    """Requests waiting in the server on average, to those at work."""
    worst_queue: int
    fairness: float
    refused: float
    """Refusals for each answer."""
    people: float | None
    """Interactive p99 to what it is alone."""
    recovery: float | None
    """Seconds from the end of an outage until the server is full."""


def best_fixed(scenario: Scenario, seed: int) -> Best:
    """Try limits for each worker, and take the least that gives the most but for half a percent."""
    tried = {}
    for limit in FIXED:
        if limit <= scenario.maximum:
            tried[limit] = play(scenario, lambda maximum, limit=limit: FixedLimit(limit), seed)
    rates = {limit: played.rate(scenario.settled, scenario.seconds) for limit, played in tried.items()}
    limit = min(limit for limit, rate in rates.items() if rate >= 0.995 * max(rates.values()))
    running = tried[limit].mean(tried[limit].trace.running, scenario.settled, scenario.seconds)
    alone = None
    if scenario.people:
        alone = play(replace(scenario, workers=0, joining=()), lambda maximum: FixedLimit(1), seed).people_p99()
    return Best(limit, rates[limit], running, alone)


def score(scenario: Scenario, best: Best, make: MakeLimit, seed: int) -> Score:
    """Play a scenario by a rule."""
    return scored(play(scenario, make, seed), best)


def scored(played: Played, best: Best) -> Score:
    """Weigh what was played."""
    scenario, trace = played.scenario, played.trace
    begin, end = scenario.settled, scenario.seconds
    running = played.mean(trace.running, begin, end)
    recovery = None
    if scenario.outage is not None:
        recovery = played.reached(FULL * best.running, scenario.outage[1])
    answers = sum(len(one.answered) for one in played.workers)
    return Score(
        throughput=played.rate(begin, end) / best.rate,
        seconds_to_full=played.reached(FULL * min(best.running, scenario.server.slots), 0.0),
        queue=played.mean(trace.waiting, begin, end) / max(1.0, running),
        worst_queue=max(trace.waiting),
        fairness=played.fairness(),
        refused=sum(one.refused for one in played.workers) / max(1, answers),
        people=None if best.people_p99 is None else played.people_p99() / best.people_p99,
        recovery=recovery,
    )


def together(scores: Sequence[Score]) -> Score:
    """The mean of several scores, and the worst queue."""

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    return Score(
        throughput=statistics.fmean(one.throughput for one in scores),
        seconds_to_full=statistics.median(one.seconds_to_full for one in scores),
        queue=statistics.fmean(one.queue for one in scores),
        worst_queue=max(one.worst_queue for one in scores),
        fairness=statistics.fmean(one.fairness for one in scores),
        refused=statistics.fmean(one.refused for one in scores),
        people=mean([one.people for one in scores]),
        recovery=mean([one.recovery for one in scores]),
    )


def shown(value: float | None, digits: int) -> str:
    """A number of a table."""
    if value is None:
        return ""
    return "never" if math.isinf(value) else f"{value:.{digits}f}"
