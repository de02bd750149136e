"""The rules of the limit, one by one. How they work together: test_limit_on_server_models.py."""

from dataclasses import replace

import pytest

from batchwright.worker.server.adaptive_limit import INITIAL_LIMIT, AdaptiveLimit
from batchwright.worker.server.concurrency import FixedLimit, LatestAnswers, Limit, ServerLoad, Signal

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


IDLE = ServerLoad(waiting=0, running=0, kv_cache_usage=0.0)
"""What a server shows whose engine is done with one wave of short requests, while the next one is in its front end."""


@pytest.mark.parametrize(
    ("running", "idle_seconds", "is_cut"),
    [(64, 12, False), (64, 40, True), (40, 20, True), (0, 12, True)],
    ids=["the server's own numbers, just now", "long ago", "too few to be its own", "never"],
)
def test_an_idle_engine_between_two_waves_does_not_make_it_go_by_the_answers(
    running: int, idle_seconds: int, is_cut: bool
) -> None:
    limit = grown()
    limit.finished(10.0, 1.0, 64, Signal.SUCCESS)
    limit.loaded(10.0, ServerLoad(waiting=0, running=running, kv_cache_usage=0.1), limit.limit)
    for second in range(11, 11 + idle_seconds):
        limit.loaded(float(second), IDLE, limit.limit)
        answer(limit, 64, now=float(second), seconds=3.0)
    assert (limit.limit < 64) == is_cut


def waves(limit: AdaptiveLimit, second: float, load: ServerLoad) -> None:
    """A sample while the limit is used to the full, by requests that are answered together."""
    for in_flight in range(limit.limit, 0, -1):
        limit.finished(second, 0.5, in_flight, Signal.OTHER)
    limit.loaded(second + 0.5, load, in_flight=0)


def own(limit: AdaptiveLimit) -> ServerLoad:
    """All that is in flight is at work: no other server shows that."""
    return ServerLoad(waiting=0, running=limit.limit, kv_cache_usage=0.1)


def test_an_idle_engine_between_two_waves_has_room() -> None:
    limit = AdaptiveLimit(4096, initial=16)
    waves(limit, 0.0, own(limit))
    before = limit.limit
    waves(limit, 1.0, IDLE)
    assert limit.limit == 4 * 16 == 2 * before


@pytest.mark.parametrize(
    "load",
    [IDLE, ServerLoad(waiting=0, running=1, kv_cache_usage=0.0)],
    ids=["an idle one", "one with a single request"],
)
def test_an_engine_that_never_showed_the_requests_is_another_ones(load: ServerLoad) -> None:
    limit = AdaptiveLimit(4096, initial=16)
    limit.finished(0.0, 0.5, 16, Signal.SUCCESS)
    before = limit.limit
    limit.loaded(0.5, load, before)
    assert limit.limit == before


def test_an_idle_engine_after_a_queue_has_no_room_for_more() -> None:
    limit = AdaptiveLimit(4096, initial=60)
    for second in range(10, 30, 3):
        limit.loaded(float(second), ServerLoad(waiting=20, running=40, kv_cache_usage=0.1), 60)
        limit.loaded(second + 1.0, IDLE, 60)
    assert limit.limit == 60


def cut_by_a_queue() -> AdaptiveLimit:
    """It is second 12."""
    limit = grown(60)
    for second in (10.0, 11.0, 12.0):
        limit.loaded(second, QUEUE, limit.limit)
    assert limit.limit < 60
    return limit


def test_an_idle_engine_after_a_cut_has_no_room_for_more_if_nothing_tells_of_its_front_end() -> None:
    limit = cut_by_a_queue()
    cut = limit.limit
    for second in range(13, 33):
        limit.loaded(float(second), IDLE, limit.limit)
    assert limit.limit == cut


def test_an_idle_engine_after_a_cut_has_room_for_ever_more_if_its_front_end_takes() -> None:
    limit = cut_by_a_queue()
    answered = replace(IDLE, latest=latest(count=20, seconds=0.1))
    seen = []
    for second in range(13, 33):
        seen.append(limit.limit)
        answer(limit, 20, now=float(second), seconds=0.1)
        limit.loaded(float(second), answered, limit.limit)
    assert seen[1] < 1.5 * seen[0], "the start is over"
    assert limit.limit == 60


def test_a_cut_goes_by_the_most_in_flight_since_the_last_sample() -> None:
    limit = grown(60)
    limit.loaded(10.0, QUEUE, limit.limit)
    waves(limit, 10.5, QUEUE)
    assert 30 < limit.limit < 45


def latest(
    *, queued: float = 0.0, front_end: float = 0.0, count: int = 100, seconds: float = 0.2, steps: float = 200.0
) -> LatestAnswers:
    """Within a second, answers that took so many seconds; parts of that."""
    return LatestAnswers(count, 1.0, seconds, seconds * queued, seconds * (1 - queued - front_end), steps)


@pytest.mark.parametrize(
    ("running", "answers", "is_cut"),
    [
        pytest.param(60, None, True, id="nothing more is known"),
        pytest.param(60, latest(count=300, queued=0.3, steps=40), True, id="for answers of 40 tokens to end"),
        pytest.param(60, latest(count=300, queued=0.3, steps=4), False, id="for the next step of the engine"),
        pytest.param(0, latest(count=300, queued=0.3, steps=0), False, id="for the next step, of embeddings"),
        pytest.param(0, latest(count=200, queued=0.85, steps=0), True, id="for embeddings before them"),
        pytest.param(60, latest(count=300, queued=0.02, steps=40), False, id="only at this moment, as answers say"),
        pytest.param(60, latest(count=50, seconds=1.5, steps=40), True, id="which longer answers have not seen"),
        pytest.param(60, latest(count=60, seconds=30, steps=50), True, id="while long answers all end at once"),
    ],
)
def test_a_queue_is_one_where_requests_wait_for_others(
    running: int, answers: LatestAnswers | None, is_cut: bool
) -> None:
    limit = grown(100)
    for second in (10.0, 11.0):
        limit.loaded(second, ServerLoad(40, running, kv_cache_usage=0.1, latest=answers), limit.limit)
    assert (limit.limit < 100) == is_cut


def test_where_only_the_answers_have_not_seen_a_queue_nothing_grows() -> None:
    limit = cut_by_a_queue()
    unseen = latest(count=20, seconds=3.0, steps=40)
    before = limit.limit
    for second in range(13, 17):
        limit.loaded(float(second), ServerLoad(20, before - 20, kv_cache_usage=0.1, latest=unseen), before)
    assert limit.limit == before
    for second in range(17, 21):
        limit.loaded(float(second), ServerLoad(0, before, kv_cache_usage=0.1, latest=unseen), before)
    assert limit.limit > before


def test_answers_of_few_steps_that_end_together_do_not_pass_for_many_at_work() -> None:
    limit = cut_by_a_queue()
    before = limit.limit
    together = latest(count=before, seconds=3.0, steps=7)
    for second in range(13, 23):
        limit.loaded(float(second), ServerLoad(0, before, kv_cache_usage=0.1, latest=together), limit.limit)
    assert limit.limit >= before


@pytest.mark.parametrize("load", [IDLE, ROOM], ids=["an idle engine", "an engine with room"])
def test_it_does_not_grow_where_answers_wait_in_the_front_end(load: ServerLoad) -> None:
    limit = AdaptiveLimit(4096, initial=100)
    limit.loaded(0.0, replace(own(limit), latest=latest(front_end=0.05)), 100)
    limit.loaded(1.0, replace(load, latest=latest(front_end=0.3)), 200)
    grown_to = limit.limit
    assert grown_to == 400
    limit.loaded(2.0, replace(load, latest=latest(front_end=0.6)), 400)
    assert limit.limit == grown_to
    limit.loaded(3.0, replace(load, latest=latest(front_end=0.6, seconds=1.5)), 400)
    assert limit.limit == grown_to, "slower than from sample to sample"
    limit.loaded(4.0, replace(load, latest=None), 400)
    assert limit.limit <= grown_to + 1, "the start is over"


def test_a_single_answer_does_not_show_how_fast_the_front_end_is() -> None:
    limit = AdaptiveLimit(4096, initial=100)
    limit.loaded(0.0, replace(own(limit), latest=latest(front_end=0.01, count=1)), 100)
    limit.loaded(1.0, replace(ROOM, latest=latest(front_end=0.6)), 200)
    assert limit.limit == 400


@pytest.mark.parametrize(
    ("base", "now"),
    [
        pytest.param(latest(front_end=0.05), latest(front_end=0.3), id="a small part of the time"),
        pytest.param(latest(front_end=0.05, seconds=0.05), latest(front_end=0.6, seconds=0.05), id="a short time"),
        pytest.param(latest(front_end=0.5), latest(front_end=0.6), id="a front end that always takes so long"),
    ],
)
def test_it_grows_where_the_front_end_takes(base: LatestAnswers, now: LatestAnswers) -> None:
    limit = AdaptiveLimit(4096, initial=100)
    limit.loaded(0.0, replace(own(limit), latest=base), 100)
    limit.loaded(1.0, replace(ROOM, latest=now), 200)
    assert limit.limit == 400


def test_an_idle_engine_with_a_queue_has_no_room_for_more() -> None:
    limit = AdaptiveLimit(4096, initial=256)
    limit.loaded(0.0, own(limit), 256)
    before = limit.limit
    limit.loaded(1.0, ServerLoad(waiting=40, running=16, kv_cache_usage=0.1), before)
    assert limit.limit == before


@pytest.mark.parametrize(("queued", "grows"), [(0.02, True), (0.6, False)])
def test_an_idle_engine_has_no_room_for_more_while_answers_had_to_wait(queued: float, grows: bool) -> None:
    limit = AdaptiveLimit(4096, initial=40)
    limit.loaded(0.0, own(limit), 40)
    before = limit.limit
    limit.loaded(1.0, replace(IDLE, latest=latest(queued=queued, count=200, steps=48)), before)
    assert (limit.limit == 2 * before) == grows


@pytest.mark.parametrize(("counted", "grows"), [(60, True), (20, True), (10, False), (0, False)])
def test_an_idle_server_that_counts_the_answers_is_the_one_that_gave_them(counted: int, grows: bool) -> None:
    limit = AdaptiveLimit(4096, initial=60)
    for _ in range(60):
        limit.finished(0.0, 0.5, 60, Signal.OTHER)
    limit.loaded(0.5, replace(IDLE, latest=latest(count=counted)), 60)
    assert (limit.limit == 120) == grows


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
