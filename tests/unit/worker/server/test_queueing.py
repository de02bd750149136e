"""Telling a queue from how long answers take."""

import random
from collections.abc import Iterable

import pytest

from batchwright.worker.server.queueing import USELESS_CUTS, Queueing, Round


def ended(queueing: Queueing, seconds: Iterable[float]) -> Round:
    for one in seconds:
        queueing.answered(one)
    return queueing.end_round()


def test_a_round_says_how_many_answers_it_had_and_how_long_they_took() -> None:
    queueing = Queueing()
    queueing.answered(1.0)
    queueing.answered(3.0)
    assert queueing.answers == 2
    assert queueing.end_round() == Round(answers=2, seconds=2.0, queue=0.0)
    assert queueing.answers == 0


CHANGES = {
    # what a hundred answers took, before and after: the part that seems to be waiting, at least and at most
    "nothing": ([1.0] * 100, [1.0] * 100, -0.01, 0.01),
    "all wait for as long as they take": ([1.0] * 100, [2.0] * 100, 0.45, 0.55),
    "some are very long": ([1.0] * 100, [1.0] * 90 + [60.0] * 10, -0.01, 0.01),
    "all wait, lengths differ": ([0.1, 1, 2, 4] * 25, [2.1, 3, 4, 6] * 25, 0.45, 0.6),
    "lines of all lengths, all twice as long": ([0.1, 1, 2, 4] * 25, [0.2, 2, 4, 8] * 25, 0.0, 0.1),
    "quicker": ([2.0] * 100, [1.0] * 100, -1.0, 0.0),
    "at once": ([0.0] * 100, [0.0] * 100, 0.0, 0.0),
}


@pytest.mark.parametrize(("before", "after", "least", "most"), CHANGES.values(), ids=CHANGES)
def test_the_part_that_was_waiting(before: list[float], after: list[float], least: float, most: float) -> None:
    queueing = Queueing()
    ended(queueing, before)
    assert least <= ended(queueing, after).queue <= most


def test_chance_in_the_lengths_looks_like_a_short_queue_at_most() -> None:
    chance = random.Random(1)
    queueing = Queueing()
    seen = [ended(queueing, (chance.expovariate(1.0) for _ in range(64))).queue for _ in range(200)]
    assert max(seen) < 0.25


def test_a_wait_that_cuts_take_away_stays_one() -> None:
    queueing = Queueing()
    ended(queueing, [1.0] * 32)
    for _ in range(3 * USELESS_CUTS):
        assert ended(queueing, [3.0] * 32).queue > 0.5
        queueing.cut()
        assert ended(queueing, [1.0] * 32).queue < 0.1


def test_a_wait_that_cuts_do_not_change_is_how_long_lines_take_now() -> None:
    queueing = Queueing()
    ended(queueing, [1.0] * 32)
    for _ in range(USELESS_CUTS):
        assert ended(queueing, [3.0] * 32).queue > 0.5
        queueing.cut()
    assert ended(queueing, [3.0] * 32).queue == 0.0


def test_a_round_can_begin_anew() -> None:
    queueing = Queueing()
    queueing.answered(100.0)
    queueing.discard()
    assert ended(queueing, [1.0]).seconds == 1.0
