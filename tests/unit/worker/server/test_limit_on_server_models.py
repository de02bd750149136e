"""The adaptive limit on models of servers whose knee is known (bench/concurrency): where it settles, and how soon.

Time is simulated and the seeds are fixed, so each of these gives the same numbers every time.
"""

from dataclasses import replace

import pytest
from bench.concurrency.scenarios import CACHE, EMBEDDING, SLOTS, STEPS, Played, Scenario, blind, play, refusing
from bench.concurrency.server import ServerSettings
from bench.concurrency.stepping import SteppingSettings
from bench.concurrency.traffic import Draw, exponential, fixed, heavy

from batchwright.worker.server.adaptive_limit import AdaptiveLimit
from batchwright.worker.server.concurrency import FixedLimit

KNEE = SLOTS.slots
KINDS = {"metrics": SLOTS, "blind": blind(SLOTS), "429": refusing(SLOTS)}
"""A server with metrics; one without; one that also refuses what its queue of a quarter of the slots does not hold."""

every_kind = pytest.mark.parametrize("kind", KINDS)


def played(scenario: Scenario) -> Played:
    return play(scenario, AdaptiveLimit)


def throughput(one: Played, begin: float, end: float) -> float:
    """To what all slots could do."""
    return one.rate(begin, end) / one.scenario.server.slots


def in_flight(one: Played, begin: float, end: float) -> float:
    """All workers together, to the knee."""
    return one.mean(one.trace.in_flight, begin, end) / one.scenario.server.slots


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_with_metrics_any_number_of_workers_settles_at_the_knee(workers: int) -> None:
    one = played(Scenario("", SLOTS, workers=workers, seconds=60, settled=20))
    assert throughput(one, 20, 60) > 0.95
    assert 0.9 < in_flight(one, 20, 60) < 1.1
    assert one.fairness() > 0.85
    assert one.reached(0.9 * KNEE, 0.0) < 10


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_without_metrics_the_server_is_full_and_the_queue_bounded(workers: int) -> None:
    """No queue shows but in how long answers take, which chance makes longer too: so some of it must be there."""
    one = played(Scenario("", blind(SLOTS), workers=workers, seconds=60, settled=20))
    assert throughput(one, 20, 60) > 0.85
    assert in_flight(one, 20, 60) < 2.5


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_with_refusals_the_server_is_full_and_refuses_few(workers: int) -> None:
    one = played(Scenario("", refusing(SLOTS), workers=workers, seconds=60, settled=20))
    assert throughput(one, 20, 60) > 0.9
    assert 0.8 < in_flight(one, 20, 60) <= 1.3
    refused = sum(worker.refused for worker in one.workers)
    assert refused < 0.1 * sum(len(worker.answered) for worker in one.workers)


def test_when_their_number_changes_they_settle_at_the_knee_again() -> None:
    one = played(Scenario("", SLOTS, seconds=120, joining=[(30, 3), (60, 4), (90, -4)]))
    for begin in (15, 45, 75, 105):
        assert 0.85 < in_flight(one, begin, begin + 15) < 1.15
        assert throughput(one, begin, begin + 15) > 0.85


@every_kind
def test_seconds_after_an_outage_the_server_is_full_again(kind: str) -> None:
    one = played(Scenario("", KINDS[kind], workers=4, seconds=60, outage=(30, 40)))
    assert one.reached(0.9 * KNEE, 40.0) < 5


@every_kind
def test_a_knee_that_moves_is_followed(kind: str) -> None:
    changes = [(40, replace(KINDS[kind], slots=96)), (100, replace(KINDS[kind], slots=24))]
    one = played(Scenario("", KINDS[kind], workers=4, seconds=150, changes=changes))
    assert one.reached(0.9 * 96, 40.0) < 30
    assert one.mean(one.trace.running, 80, 100) > 0.85 * 96
    assert one.mean(one.trace.in_flight, 130, 150) < 2.5 * 24


@every_kind
def test_lines_that_run_short_for_a_while_are_no_knee(kind: str) -> None:
    one = played(Scenario("", KINDS[kind], seconds=90, demand=[(30, 5), (60, None)]))
    assert one.reached(0.9 * KNEE, 60.0) < 15


def test_long_answers_do_not_slow_the_start_where_there_are_metrics() -> None:
    server = ServerSettings(slots=500)
    one = played(Scenario("", server, workers=2, maximum=4096, length=exponential(60.0), seconds=120))
    assert one.reached(450, 0.0) < 10
    assert one.mean(one.trace.waiting, 60, 120) < 25


def test_without_metrics_long_answers_take_a_few_round_trips() -> None:
    server = blind(ServerSettings(slots=500))
    one = played(Scenario("", server, workers=2, maximum=4096, length=exponential(30.0), seconds=300))
    assert one.reached(450, 0.0) < 7 * 30


@pytest.mark.parametrize("kind", ["metrics", "blind"])
def test_lines_that_become_longer_all_at_once_are_no_queue(kind: str) -> None:
    """They look like one at first; that fewer requests don't make them quicker tells them apart."""
    lengths = [(30.0, fixed(5.0))]
    one = played(Scenario("", KINDS[kind], workers=2, length=fixed(1.0), lengths=lengths, seconds=240))
    assert throughput(one, 190, 240) > 0.8


def test_a_cache_that_long_answers_fill_is_not_overfilled() -> None:
    scenario = Scenario("", CACHE, workers=4, maximum=256, length=heavy(2.0), prompt=fixed(0.5), seconds=90, settled=30)
    adaptive, careless = played(scenario), play(scenario, FixedLimit)
    assert adaptive.preemptions < careless.preemptions / 3
    assert adaptive.rate(30, 90) > 0.85 * careless.rate(30, 90)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    ("server", "tokens"),
    [
        pytest.param(EMBEDDING, 1, id="embeddings, few a step"),
        pytest.param(replace(EMBEDDING, begun=256, each=0.0004), 1, id="embeddings, many a step"),
        pytest.param(STEPS, 1, id="a token"),
        pytest.param(replace(STEPS, ahead=False), 1, id="a token, each step for itself"),
        pytest.param(STEPS, 2, id="two tokens"),
        pytest.param(STEPS, 4, id="four tokens"),
        pytest.param(replace(STEPS, ahead=False), 4, id="four tokens, each step for itself"),
        pytest.param(STEPS, 16, id="sixteen tokens"),
        pytest.param(replace(STEPS, tokens=3), 12, id="twelve tokens, three a step"),
    ],
)
def test_requests_that_come_during_a_step_are_no_queue(server: SteppingSettings, tokens: int, workers: int) -> None:
    """Of short answers the metrics show hardly any at work, and many waiting, for the next step."""
    scenario = Scenario("", server, workers=workers, maximum=512 // workers, length=fixed(tokens), seconds=40)
    one, full = played(scenario), play(scenario, FixedLimit)
    assert one.rate(20, 40) > 0.9 * full.rate(20, 40)
    a_step = one.mean(one.trace.running, 20, 40) / (tokens / server.tokens)
    assert one.mean(one.trace.waiting, 20, 40) < 4 * a_step


PEOPLE = Scenario("", SLOTS, maximum=256, people=20.0, people_length=exponential(0.5), seconds=180, settled=20)


@pytest.mark.parametrize(
    ("workers", "length"),
    [(1, exponential(1.0)), (8, exponential(1.0)), (4, exponential(8.0))],
    ids=["1 worker", "8 workers", "long batch answers"],
)
def test_people_come_first_and_batch_uses_what_they_leave(workers: int, length: Draw) -> None:
    alone = played(replace(PEOPLE, workers=0)).people_p99()
    one = played(replace(PEOPLE, workers=workers, length=length))
    left = KNEE - PEOPLE.people * 0.5
    assert one.people_p99() < 1.5 * alone
    assert one.rate(20, 180) > 0.8 * left


@pytest.mark.parametrize("tokens", [1, 16, 200])
def test_people_wait_for_a_few_steps_and_no_more(tokens: int) -> None:
    server = replace(STEPS, each=0.0)
    scenario = Scenario(
        "", server, maximum=2048, length=exponential(tokens), people=5.0, people_length=exponential(50), settled=20
    )
    alone = played(replace(scenario, workers=0)).people_p99()
    assert played(scenario).people_p99() < 1.2 * alone


def test_the_model_shows_what_a_plain_cap_does_to_people() -> None:
    """Else the test above would say little."""
    alone = played(replace(PEOPLE, workers=0)).people_p99()
    assert play(PEOPLE, FixedLimit).people_p99() > 2 * alone
