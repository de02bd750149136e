"""The rules of the limit, one by one. How they work together: test_limit_on_server_models.py."""

import pytest

from batchwright.worker.server.adaptive_limit import INITIAL_LIMIT, AdaptiveLimit
from batchwright.worker.server.concurrency import FixedLimit, Limit, ServerLoad, Signal

ROOM = ServerLoad(waiting=0, running=1000, kv_cache_usage=0.1)
QUEUE = ServerLoad(waiting=500, running=1000, kv_cache_usage=0.1)


def answer(limit: Limit, times: int, *, now: float, seconds: float = 1.0) -> None:
    """So many answers, each while the limit is used to the full."""
    for _ in range(times):
        limit.finished(now, seconds, limit.limit, Signal.SUCCESS)


def grown(maximum: int = 64) -> AdaptiveLimit:
    """A limit that has come to its maximum; it is second 10."""
    limit = AdaptiveLimit(maximum)
    for second in range(10):
        answer(limit, limit.limit, now=float(second))
    assert limit.limit == maximum
    return limit


def test_it_starts_low() -> None:
    assert AdaptiveLimit(64).limit == INITIAL_LIMIT
    assert AdaptiveLimit(2).limit == 2


@pytest.mark.parametrize(("maximum", "initial"), [(0, 4), (4, 0), (-1, -1)])
def test_no_limit_is_below_one(maximum: int, initial: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AdaptiveLimit(maximum, initial)
    with pytest.raises(ValueError, match="at least 1"):
        FixedLimit(min(maximum, initial))


def test_it_doubles_with_each_round_trip() -> None:
    limit = AdaptiveLimit(64)
    seen = [limit.limit]
    for second in range(3):
        answer(limit, limit.limit, now=float(second))
        seen.append(limit.limit)
    assert seen == [4, 8, 16, 32]


def test_it_does_not_grow_while_it_is_not_used() -> None:
    limit = AdaptiveLimit(64)
    for second in range(100):
        limit.finished(float(second), 1.0, 2, Signal.SUCCESS)
    assert limit.limit == INITIAL_LIMIT


def test_lines_that_run_out_are_no_overload() -> None:
    limit = grown()
    for second in range(10, 100):
        limit.finished(float(second), 1.0, 3, Signal.SUCCESS)
    assert limit.limit == 64


def test_many_that_fail_together_are_one_cut() -> None:
    limit = grown()
    for in_flight in range(64, 0, -1):
        limit.finished(10.0, 1.0, in_flight, Signal.OVERLOAD)
    assert 32 <= limit.limit < 64


def test_a_single_failure_is_no_cut() -> None:
    limit = grown()
    limit.finished(10.0, 0.001, 64, Signal.OVERLOAD)
    assert limit.limit == 64


def test_refusals_that_go_on_are_a_cut_a_second() -> None:
    limit = AdaptiveLimit(64, initial=64)
    seen = []
    for tenth in range(30):
        for _ in range(10):
            limit.finished(tenth / 10, 0.0, limit.limit, Signal.OVERLOAD)
        seen.append(limit.limit)
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < 16


def test_what_says_nothing_about_load_changes_nothing() -> None:
    limit = grown()
    for _ in range(1000):
        limit.finished(10.0, 0.1, 64, Signal.OTHER)
    assert limit.limit == 64


def test_answers_that_all_begin_to_wait_are_a_cut() -> None:
    limit = grown()
    for second in range(20, 60):
        answer(limit, 32, now=float(second), seconds=3.0)
        if limit.limit < 64:
            break
    assert 24 <= limit.limit < 64


def test_a_few_very_long_answers_are_no_queue() -> None:
    limit = grown()
    for second in range(20, 60):
        answer(limit, 28, now=float(second), seconds=1.0)
        answer(limit, 4, now=float(second), seconds=15.0)
    assert limit.limit == 64


def test_metrics_with_room_double_it_before_any_answer_came() -> None:
    limit = AdaptiveLimit(4096)
    seen = [limit.limit]
    for second in range(4):
        limit.loaded(float(second), ROOM)
        seen.append(limit.limit)
    assert seen == [4, 8, 16, 32, 64]


def test_a_queue_that_stays_is_a_cut_in_proportion() -> None:
    limit = grown(60)
    limit.loaded(10.0, QUEUE)
    assert limit.limit == 60
    limit.loaded(11.0, QUEUE)
    assert 30 < limit.limit < 45


def test_a_full_cache_is_a_cut() -> None:
    limit = grown()
    limit.loaded(10.0, ServerLoad(waiting=0, running=64, kv_cache_usage=1.0))
    assert 55 < limit.limit < 64


def test_while_the_cut_comes_into_effect_there_is_no_other() -> None:
    limit = grown(60)
    limit.loaded(10.0, QUEUE)
    limit.loaded(11.0, QUEUE)
    cut = limit.limit
    for second in range(12, 20):
        limit.finished(float(second), 30.0, 60, Signal.SUCCESS)  # nothing has left yet but this one
        limit.loaded(float(second), QUEUE)
    assert limit.limit >= cut - 6  # it only follows the longer queue


def test_once_the_cache_has_room_it_grows_again() -> None:
    limit = grown()
    limit.loaded(10.0, ServerLoad(waiting=0, running=64, kv_cache_usage=1.0))
    cut = limit.limit
    for second in range(11, 21):
        limit.finished(float(second), 1.0, limit.limit, Signal.SUCCESS)
        limit.loaded(float(second), ServerLoad(waiting=0, running=limit.limit, kv_cache_usage=0.2))
    assert limit.limit > cut


def test_after_refusals_it_waits_and_then_grows_ever_faster_where_metrics_show_room() -> None:
    limit = AdaptiveLimit(256, initial=100)
    for _ in range(30):
        limit.finished(10.0, 0.0, 100, Signal.OVERLOAD)
    cut = limit.limit
    seen = []
    for second in range(11, 31):
        limit.finished(float(second), 1.0, limit.limit, Signal.SUCCESS)
        limit.loaded(float(second), ServerLoad(waiting=0, running=limit.limit, kv_cache_usage=0.1))
        seen.append(limit.limit)
    assert seen[3] == cut < 100
    assert seen[-1] == 256


@pytest.mark.parametrize("load", [ServerLoad(0, 0, 0.0), ServerLoad(2, 3, 1.0)], ids=["empty", "far too few"])
def test_numbers_that_cannot_be_of_this_server_are_ignored(load: ServerLoad) -> None:
    limit = grown()
    for second in range(10, 20):
        limit.loaded(float(second), load)
        answer(limit, 1, now=float(second))
    assert limit.limit == 64


IDLE = ServerLoad(waiting=0, running=0, kv_cache_usage=0.0)
"""What a server shows whose engine is done with one wave of short requests, while the next one is in its front end."""


@pytest.mark.parametrize(
    ("running", "idle_seconds", "is_cut"),
    [(64, 12, False), (64, 30, True), (40, 12, True), (0, 12, True)],
    ids=["the server's own numbers, just now", "long ago", "too few to be its own", "never"],
)
def test_an_idle_engine_between_two_waves_does_not_make_it_go_by_the_answers(
    running: int, idle_seconds: int, is_cut: bool
) -> None:
    limit = grown()
    limit.finished(10.0, 1.0, 64, Signal.SUCCESS)
    limit.loaded(10.0, ServerLoad(waiting=0, running=running, kv_cache_usage=0.1))
    for second in range(11, 11 + idle_seconds):
        limit.loaded(float(second), IDLE)
        answer(limit, 64, now=float(second), seconds=3.0)
    assert (limit.limit < 64) == is_cut


def test_a_queue_before_and_one_after_an_idle_engine_are_two_waves() -> None:
    limit = grown(60)
    for second in range(10, 30, 3):
        limit.finished(float(second), 1.0, 60, Signal.SUCCESS)
        limit.loaded(float(second), ServerLoad(waiting=20, running=40, kv_cache_usage=0.1))
        limit.loaded(second + 1.0, IDLE)
    assert limit.limit == 60


def test_without_fresh_metrics_it_goes_by_the_answers() -> None:
    limit = AdaptiveLimit(64)
    limit.loaded(0.0, ROOM)
    answer(limit, 8, now=1.0)
    assert limit.limit == 8
    answer(limit, 8, now=6.0)
    assert limit.limit == 16


def test_after_an_outage_it_starts_again() -> None:
    limit = grown()
    limit.restart(20.0)
    assert limit.limit == INITIAL_LIMIT
    for second in range(22, 28):
        answer(limit, limit.limit, now=float(second))
    assert limit.limit == 64


def test_what_was_sent_before_an_outage_does_not_count_after_it() -> None:
    limit = grown()
    limit.restart(20.0)
    for _ in range(64):
        limit.finished(21.0, 5.0, 4, Signal.OVERLOAD)
    assert limit.limit == INITIAL_LIMIT


def test_a_fixed_limit_stays() -> None:
    limit = FixedLimit(7)
    for signal in Signal:
        limit.finished(1.0, 1.0, 7, signal)
    limit.loaded(1.0, QUEUE)
    limit.restart(1.0)
    assert limit.limit == 7
