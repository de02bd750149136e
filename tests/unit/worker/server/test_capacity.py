"""What a server's metrics say about the room it has."""

import itertools
import math

import pytest

from batchwright.worker.server.capacity import Capacity, Room
from batchwright.worker.server.concurrency import ServerLoad


def load(waiting: int, running: int, cache: float = 0.1) -> ServerLoad:
    return ServerLoad(waiting, running, cache)


def sampled(capacity: Capacity, one: ServerLoad, times: int = 1) -> Room:
    for _ in range(times):
        room = capacity.sampled(one)
    return room


@pytest.fixture
def known() -> Capacity:
    """A server that has shown that 100 fit."""
    capacity = Capacity()
    sampled(capacity, load(50, 100), times=2)
    return capacity


def test_a_server_that_has_shown_no_limit_has_room_without_end() -> None:
    room = sampled(Capacity(), load(0, 1000), times=20)
    assert room.spare == math.inf
    assert room.excess <= 1
    assert not room.queued


def test_a_queue_in_two_samples_shows_what_fits(known: Capacity) -> None:
    room = sampled(known, load(0, 50))
    assert 30 < room.spare < 50


def test_a_queue_in_one_sample_is_a_burst() -> None:
    capacity = Capacity()
    room = sampled(capacity, load(50, 100))
    assert room.queued
    assert room.excess <= 1
    assert sampled(capacity, load(0, 100)).spare == math.inf


def test_the_excess_takes_the_queue_away_and_leaves_some_room(known: Capacity) -> None:
    room = sampled(known, load(50, 100))
    assert 80 < 150 / room.excess < 100


def test_the_longer_there_was_a_queue_the_more_room_is_left(known: Capacity) -> None:
    before = sampled(known, load(0, 50)).spare
    sampled(known, load(50, 100), times=10)
    assert sampled(known, load(0, 50)).spare < before


def test_after_calm_samples_at_full_use_more_is_tried_and_ever_faster(known: Capacity) -> None:
    running = [95]
    for _ in range(25):
        running.append(running[-1] + max(0, int(sampled(known, load(0, running[-1])).spare)))
    assert running[5] < 100
    assert running[25] > 200
    steps = [later / earlier for earlier, later in itertools.pairwise(running)]
    assert max(steps) < 1.1, "a server is not flooded to find out"


def test_no_more_is_tried_than_is_used(known: Capacity) -> None:
    assert sampled(known, load(0, 95), times=100).spare < 20


def test_calm_samples_at_little_use_say_nothing(known: Capacity) -> None:
    assert sampled(known, load(0, 10), times=100).spare < 90


def test_a_queue_ends_the_search_for_more(known: Capacity) -> None:
    sampled(known, load(0, 95), times=20)
    sampled(known, load(10, 100), times=2)
    assert sampled(known, load(0, 90)).spare < 10


def test_requests_just_taken_by_the_engine_are_no_queue() -> None:
    assert not sampled(Capacity(), load(1, 10)).queued
    assert not sampled(Capacity(), load(3, 100)).queued
    assert sampled(Capacity(), load(2, 10)).queued
    assert sampled(Capacity(), load(4, 100)).queued


def test_while_the_number_at_work_still_changes_a_queue_is_no_limit() -> None:
    capacity = Capacity()
    for running in (10, 20, 15, 25, 12):
        room = sampled(capacity, load(5, running))
    assert room.excess > 1, "it is a queue all the same"
    assert sampled(capacity, load(0, 15)).spare == math.inf


def test_a_queue_at_far_less_than_was_at_work_before_is_no_limit() -> None:
    capacity = Capacity()
    sampled(capacity, load(0, 100))
    sampled(capacity, load(5, 20), times=3)
    assert sampled(capacity, load(0, 20)).spare == math.inf


def test_a_limit_that_fell_is_one_after_a_while() -> None:
    capacity = Capacity()
    sampled(capacity, load(0, 100))
    sampled(capacity, load(5, 50), times=100)
    assert sampled(capacity, load(0, 40)).spare < 10


@pytest.mark.parametrize(("cache", "excess"), [(0.5, False), (0.94, False), (0.97, True), (1.0, True)])
def test_a_full_cache_is_excess(cache: float, excess: bool) -> None:
    assert (sampled(Capacity(), load(0, 100, cache)).excess > 1) is excess


def test_how_many_a_full_cache_holds_is_not_remembered() -> None:
    capacity = Capacity()
    assert sampled(capacity, load(50, 100, 1.0), times=5).excess > 1.5
    assert sampled(capacity, load(0, 50, 0.3)).spare == math.inf


def test_how_many_fit_is_not_learned_while_one_of_several_caches_is_full() -> None:
    capacity = Capacity()
    sampled(capacity, ServerLoad(20, 60, kv_cache_usage=0.7, fullest_kv_cache=1.0), times=5)
    assert sampled(capacity, load(0, 60, 0.3)).spare == math.inf


def test_a_worker_may_always_take_a_little_so_that_shares_become_equal(known: Capacity) -> None:
    assert sampled(known, load(50, 100)).share > 0


@pytest.mark.parametrize("running", [0, 1])
def test_an_empty_cache_does_not_show_how_many_fit(running: int) -> None:
    assert sampled(Capacity(), load(200, running, cache=0.001)).excess <= 1
