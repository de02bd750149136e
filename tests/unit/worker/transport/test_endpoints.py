"""Which address gets a request: least load, affinity within bounds, and none that fails."""

import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from batchwright.worker.transport.endpoints import (
    DRAIN_SECONDS,
    SILENCE_SECONDS,
    TIMEOUTS_IN_A_ROW,
    Check,
    Endpoint,
    Endpoints,
)

A, B, C = ("10.0.0.1",), ("10.0.0.2",), ("10.0.0.3",)


def of(*addresses: tuple[str, ...]) -> Endpoints:
    endpoints = Endpoints()
    endpoints.update(addresses, 0.0)
    return endpoints


def at(endpoints: Endpoints, address: tuple[str, ...]) -> Endpoint:
    return next(one for one in endpoints.listed if one.address == address)


def sent(endpoints: Endpoints, count: int, affinity: int | None = None, now: float = 0.0) -> Counter[tuple[str, ...]]:
    return Counter(endpoints.start(affinity, now).address for _ in range(count))


def in_use(endpoints: Endpoints) -> set[tuple[str, ...]]:
    return {one.address for one in endpoints.usable}


def check(endpoints: Endpoints, now: float, **results: Check) -> list[tuple[str, ...]]:
    """Addresses whose requests are lost, after a check that took no time."""
    addresses = {"a": A, "b": B, "c": C}
    checks = {at(endpoints, addresses[name]): result for name, result in results.items()}
    return [one.address for one in endpoints.apply(checks, now, now)]


class TestLoad:
    def test_no_address_is_no_choice(self) -> None:
        with pytest.raises(LookupError):
            Endpoints().start(None, 0.0)

    def test_requests_in_flight_are_shared_out(self) -> None:
        assert sent(of(A, B, C), 30) == {A: 10, B: 10, C: 10}

    def test_the_one_with_the_least_in_flight_is_next(self) -> None:
        endpoints = of(A, B, C)
        sent(endpoints, 30)
        for _ in range(5):
            endpoints.finish(at(endpoints, B))
        assert sent(endpoints, 5) == {B: 5}

    def test_one_request_at_a_time_goes_round(self) -> None:
        endpoints, seen = of(A, B, C), Counter[tuple[str, ...]]()
        for _ in range(30):
            one = endpoints.start(None, 0.0)
            endpoints.finish(one)
            seen[one.address] += 1
        assert seen == {A: 10, B: 10, C: 10}

    def test_a_new_address_gets_the_next_ones(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 20)
        endpoints.update((A, B, C), 0.0)
        assert sent(endpoints, 10) == {C: 10}


class TestAffinity:
    def test_requests_of_one_prefix_stay_together_one_at_a_time(self) -> None:
        endpoints, seen = of(A, B, C), set()
        for _ in range(30):
            one = endpoints.start(7, 0.0)
            endpoints.finish(one)
            seen.add(one.address)
        assert len(seen) == 1

    def test_a_prefix_of_all_requests_leaves_nobody_idle(self) -> None:
        assert max(sent(of(A, B, C), 30, affinity=7).values()) <= 1.25 * 10 + 1

    def test_prefixes_are_shared_out_evenly(self) -> None:
        endpoints = of(A, B, C)
        homes = Counter(endpoints.choose(prefix).address for prefix in range(3000))
        assert all(900 < count < 1100 for count in homes.values())

    def test_a_third_of_the_prefixes_moves_when_one_of_three_goes(self) -> None:
        endpoints = of(A, B, C)
        before = {prefix: endpoints.choose(prefix).address for prefix in range(3000)}
        endpoints.update((A, B), 0.0)
        moved = [prefix for prefix, home in before.items() if endpoints.choose(prefix).address != home]
        assert {before[prefix] for prefix in moved} == {C}

    def test_prefixes_come_home_with_the_address(self) -> None:
        endpoints = of(A, B, C)
        before = [endpoints.choose(prefix).address for prefix in range(100)]
        check(endpoints, 0.0, c=Check.REFUSING)
        check(endpoints, 1.0, c=Check.ALIVE)
        assert [endpoints.choose(prefix).address for prefix in range(100)] == before

    @pytest.mark.parametrize("keeps_prefixes", [True, False])
    def test_with_many_requests_in_flight_a_prefix_is_on_few_replicas(self, keeps_prefixes: bool) -> None:
        """As a worker sends: groups of lines with one prefix, 64 lines in flight, which end in any order."""
        replicas, prefixes, lines, in_flight = 4, 60, 25, 64
        endpoints, chance = of(*((f"10.0.0.{number}",) for number in range(replicas))), random.Random(1)
        flying, seen = list[Endpoint](), defaultdict[int, set[tuple[str, ...]]](set)
        for prefix in (number for number in range(prefixes) for _ in range(lines)):
            if len(flying) == in_flight:
                endpoints.finish(flying.pop(chance.randrange(in_flight)))
            flying.append(endpoints.start(prefix if keeps_prefixes else None, 0.0))
            seen[prefix].add(flying[-1].address)
        replicas_of_a_prefix = sum(map(len, seen.values())) / prefixes
        assert replicas_of_a_prefix < 3 if keeps_prefixes else replicas_of_a_prefix > 3.9


class TestNames:
    def test_an_address_that_is_no_longer_listed_gets_nothing_and_goes_once_it_is_idle(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 2)
        leaving = at(endpoints, B)
        endpoints.update((A,), 0.0)
        assert sent(endpoints, 10) == {A: 10}
        assert endpoints.remove_drained() == []
        endpoints.finish(leaving)
        assert endpoints.remove_drained() == [leaving]

    def test_an_address_that_comes_back_while_it_drains_is_the_same_one(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 2)
        endpoints.update((A,), 0.0)
        assert endpoints.update((A, B), 1.0) == []
        assert at(endpoints, B).in_flight == 1

    def test_a_name_without_addresses_leaves_each_in_use_until_it_fails(self) -> None:
        endpoints = of(A, B)
        endpoints.update((), 1.0)
        assert in_use(endpoints) == {A, B}
        endpoints.lose(at(endpoints, A), 2.0)
        assert in_use(endpoints) == {B}
        endpoints.lose(at(endpoints, B), 3.0)
        assert in_use(endpoints) == set()

    @pytest.mark.parametrize(("result", "left"), [(Check.REFUSING, set()), (Check.SILENT, {A})])
    def test_a_name_without_addresses_lets_even_the_last_one_go_that_refuses(
        self, result: Check, left: set[tuple[str, ...]]
    ) -> None:
        endpoints = of(A)
        endpoints.update((), 1.0)
        check(endpoints, 2.0, a=result)
        assert in_use(endpoints) == left

    def test_the_last_listed_address_is_used_even_if_it_was_taken_out(self) -> None:
        endpoints = of(A, B)
        endpoints.lose(at(endpoints, B), 0.0)
        endpoints.update((B,), 1.0)
        assert in_use(endpoints) == {B}


class TestFailing:
    def test_an_address_without_connection_gets_nothing_at_once(self) -> None:
        endpoints = of(A, B)
        endpoints.lose(at(endpoints, A), 0.0)
        assert sent(endpoints, 10) == {B: 10}

    def test_the_last_address_stays_in_use(self) -> None:
        endpoints = of(A, B)
        endpoints.lose(at(endpoints, A), 0.0)
        endpoints.lose(at(endpoints, B), 0.0)
        assert in_use(endpoints) == {B}

    @pytest.mark.parametrize("result", [Check.REFUSING, Check.SILENT])
    def test_an_address_that_fails_a_check_gets_nothing_until_it_passes_one(self, result: Check) -> None:
        endpoints = of(A, B)
        check(endpoints, 0.0, a=result)
        assert in_use(endpoints) == {B}
        check(endpoints, 1.0, a=Check.ALIVE)
        assert in_use(endpoints) == {A, B}

    def test_nothing_changes_when_all_fail(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        assert check(endpoints, 100.0, a=Check.REFUSING, b=Check.SILENT) == []
        assert in_use(endpoints) == {A, B}

    @pytest.mark.parametrize("result", [Check.REFUSING, Check.SILENT])
    def test_nothing_changes_when_all_fail_one_after_the_other(self, result: Check) -> None:
        endpoints = of(A, B, C)
        sent(endpoints, 6)
        began, ended = SILENCE_SECONDS, SILENCE_SECONDS + 5.0
        asked = endpoints.suspects(began)
        assert [endpoints.apply({one: result}, began, ended) for one in asked] == [[], [], []]
        assert in_use(endpoints) == {A, B, C}

    def test_one_that_fails_late_is_taken_out_though_the_others_have_fallen_silent_again(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        began, ended = SILENCE_SECONDS, SILENCE_SECONDS + 5.0
        endpoints.apply({at(endpoints, B): Check.ALIVE}, began, began)
        endpoints.apply({at(endpoints, A): Check.SILENT}, began, ended)
        assert in_use(endpoints) == {B}

    def test_a_check_that_is_late_means_nothing_while_answers_come(self) -> None:
        endpoints = of(A, B)
        endpoints.hear(at(endpoints, A), 3.0)
        endpoints.apply({at(endpoints, A): Check.SILENT}, began=1.0, now=6.0)
        assert in_use(endpoints) == {A, B}


class TestLost:
    """What is in flight to an address that fails."""

    def test_goes_on_while_answers_come_though_new_connections_are_refused(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        endpoints.hear(at(endpoints, A), 99.0)
        assert check(endpoints, 100.0, a=Check.REFUSING) == []

    def test_is_lost_once_a_refusing_address_is_silent(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        assert check(endpoints, SILENCE_SECONDS, a=Check.REFUSING, b=Check.ALIVE) == [A]

    def test_is_lost_after_some_checks_in_a_row_without_an_answer(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        endpoints.hear(at(endpoints, B), SILENCE_SECONDS)
        lost = [check(endpoints, SILENCE_SECONDS + number, a=Check.SILENT) for number in range(TIMEOUTS_IN_A_ROW)]
        assert lost == [[]] * (TIMEOUTS_IN_A_ROW - 1) + [[A]]

    @pytest.mark.parametrize("result", [Check.REFUSING, Check.SILENT])
    def test_ends_in_its_own_time_once_the_address_is_no_longer_listed(self, result: Check) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        leaving = at(endpoints, A)
        endpoints.update((B,), 0.0)
        assert endpoints.suspects(SILENCE_SECONDS) == [leaving, at(endpoints, B)]
        checks = [SILENCE_SECONDS, 2 * SILENCE_SECONDS, DRAIN_SECONDS - 1, DRAIN_SECONDS]
        lost = [endpoints.apply({leaving: result, at(endpoints, B): Check.ALIVE}, now, now) for now in checks]
        assert lost == [[], [], [], [leaving]]

    def test_of_an_address_that_is_no_longer_listed_is_not_lost_by_one_check(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 4)
        leaving = at(endpoints, A)
        endpoints.update((B,), 0.0)
        checks = {leaving: Check.REFUSING, at(endpoints, B): Check.ALIVE}
        assert endpoints.apply(checks, DRAIN_SECONDS, DRAIN_SECONDS) == []


class TestSuspects:
    def test_nothing_in_flight_is_no_silence(self) -> None:
        assert of(A, B).suspects(1000.0) == []

    def test_silence_begins_with_the_first_request_or_the_last_answer(self) -> None:
        endpoints = of(A, B)
        sent(endpoints, 2, now=100.0)
        assert endpoints.suspects(100.0 + SILENCE_SECONDS - 0.1) == []
        endpoints.hear(at(endpoints, A), 103.0)
        assert endpoints.suspects(100.0 + SILENCE_SECONDS) == [at(endpoints, B)]

    def test_a_server_with_one_address_is_the_callers_to_check(self) -> None:
        endpoints = of(A)
        sent(endpoints, 1)
        endpoints.suspect(at(endpoints, A))
        assert endpoints.suspects(1000.0) == []

    def test_an_address_that_is_out_is_checked_again_and_again_but_ever_more_seldom(self) -> None:
        endpoints, times, now = of(A, B), [], 0.0
        endpoints.lose(at(endpoints, A), now)
        while now < 60:
            if endpoints.suspects(now):
                check(endpoints, now, a=Check.REFUSING)
                times.append(now)
            now += 0.5
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert pauses[:5] == [1, 2, 4, 8, 10]
        assert set(pauses[5:]) == {10}

    def test_an_address_that_passed_is_suspected_no_more(self) -> None:
        endpoints = of(A, B)
        endpoints.suspect(at(endpoints, A))
        assert endpoints.suspects(0.0) == [at(endpoints, A)]
        check(endpoints, 0.0, a=Check.ALIVE)
        assert endpoints.suspects(10.0) == []
