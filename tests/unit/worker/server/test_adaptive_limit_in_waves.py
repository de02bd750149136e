"""The rules of the limit where answers are short and come in waves, and where the server's sums tell about them."""

from dataclasses import replace

import pytest

from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.concurrency import LatestAnswers, ServerLoad, Signal
from unit.worker.server.limit_as_told import QUEUE, ROOM, answer, grown

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
