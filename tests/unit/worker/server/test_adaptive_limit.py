"""The rules of the limit, one by one. How they work together: test_limit_on_server_models.py."""

import pytest

from batchwright.worker.server.adaptive_limit import INITIAL_LIMIT, AdaptiveLimit
from batchwright.worker.server.concurrency import FixedLimit, ServerLoad, Signal
from unit.worker.server.limit_as_told import QUEUE, ROOM, answer, grown


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
        limit.loaded(float(second), ROOM, limit.limit)
        seen.append(limit.limit)
    assert seen == [4, 8, 16, 32, 64]


def test_metrics_with_room_double_it_whatever_the_answers_were_taken_for() -> None:
    limit = AdaptiveLimit(4096)
    answer(limit, 28, now=1.0)
    answer(limit, 20, now=9.0, seconds=5.0)
    cut = limit.limit
    assert cut < 32
    limit.loaded(10.0, ROOM, limit.limit)
    limit.loaded(11.0, ROOM, limit.limit)
    assert limit.limit == 4 * cut


def test_metrics_with_room_do_not_undo_a_cut_for_refusals() -> None:
    limit = AdaptiveLimit(4096)
    answer(limit, 28, now=1.0)
    for _ in range(8):
        limit.finished(5.0, 1.0, 32, Signal.OVERLOAD)
    cut = limit.limit
    assert cut < 32
    limit.loaded(11.0, ROOM, limit.limit)
    assert limit.limit <= cut + 1


def test_metrics_with_room_undo_no_cut_by_answers_that_came_after_others() -> None:
    limit = AdaptiveLimit(256)
    for second in range(8):
        limit.loaded(float(second), ROOM, limit.limit)
    for second in range(20, 60):
        answer(limit, limit.limit // 2, now=float(second), seconds=1.0 if second < 40 else 3.0)
        if limit.limit < 200:
            break
    cut = limit.limit
    assert cut < 200
    limit.loaded(61.0, ROOM, limit.limit)
    assert limit.limit < 1.1 * cut


def test_a_queue_that_stays_is_a_cut_in_proportion() -> None:
    limit = grown(60)
    limit.loaded(10.0, QUEUE, limit.limit)
    assert limit.limit == 60
    limit.loaded(11.0, QUEUE, limit.limit)
    assert 30 < limit.limit < 45


def test_a_full_cache_is_a_cut() -> None:
    limit = grown()
    limit.loaded(10.0, ServerLoad(waiting=0, running=64, kv_cache_usage=1.0), limit.limit)
    assert 55 < limit.limit < 64


def test_while_the_cut_comes_into_effect_there_is_no_other() -> None:
    limit = grown(60)
    limit.loaded(10.0, QUEUE, limit.limit)
    limit.loaded(11.0, QUEUE, limit.limit)
    cut = limit.limit
    for second in range(12, 20):
        limit.finished(float(second), 30.0, 60, Signal.SUCCESS)  # nothing has left yet but this one
        limit.loaded(float(second), QUEUE, limit.limit)
    assert limit.limit >= cut - 6  # it only follows the longer queue


def test_once_the_cache_has_room_it_grows_again() -> None:
    limit = grown()
    limit.loaded(10.0, ServerLoad(waiting=0, running=64, kv_cache_usage=1.0), limit.limit)
    cut = limit.limit
    for second in range(11, 21):
        limit.finished(float(second), 1.0, limit.limit, Signal.SUCCESS)
        limit.loaded(float(second), ServerLoad(waiting=0, running=limit.limit, kv_cache_usage=0.2), limit.limit)
    assert limit.limit > cut


def test_after_refusals_it_waits_and_then_grows_ever_faster_where_metrics_show_room() -> None:
    limit = AdaptiveLimit(256, initial=100)
    for _ in range(30):
        limit.finished(10.0, 0.0, 100, Signal.OVERLOAD)
    cut = limit.limit
    seen = []
    for second in range(11, 31):
        limit.finished(float(second), 1.0, limit.limit, Signal.SUCCESS)
        limit.loaded(float(second), ServerLoad(waiting=0, running=limit.limit, kv_cache_usage=0.1), limit.limit)
        seen.append(limit.limit)
    assert seen[3] == cut < 100
    assert seen[-1] == 256


@pytest.mark.parametrize("load", [ServerLoad(0, 0, 0.0), ServerLoad(2, 3, 1.0)], ids=["empty", "far too few"])
def test_numbers_that_cannot_be_of_this_server_are_ignored(load: ServerLoad) -> None:
    limit = AdaptiveLimit(4096, initial=64)
    for second in range(10, 20):
        limit.loaded(float(second), load, limit.limit)
    assert limit.limit == 64


def test_without_fresh_metrics_it_goes_by_the_answers() -> None:
    limit = AdaptiveLimit(64)
    limit.loaded(0.0, ROOM, limit.limit)
    answer(limit, 8, now=1.0)
    assert limit.limit == 8
    answer(limit, 8, now=13.0)
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
    limit.loaded(1.0, QUEUE, limit.limit)
    limit.restart(1.0)
    assert limit.limit == 7
