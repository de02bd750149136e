"""Holding the Lease: the shell around the rules, with a store in memory and threads that are real."""

import threading
from collections.abc import Callable, Iterator

import pytest

from batchwright.election import leadership
from batchwright.election.candidate import Timing
from batchwright.election.leadership import Leadership, identity_of
from batchwright.kube import errors
from fixtures.lease_in_memory import LeaseInMemory

TIMING = Timing(duration=15, renew_deadline=10, retry_period=2)
HASTY = Timing(duration=15, renew_deadline=10, retry_period=0.02)
PATIENCE = 20.0


class Bench:
    """One process's part, with a clock that the test moves and an end that is only noted."""

    def __init__(self, timing: Timing = TIMING) -> None:
        self.store = LeaseInMemory()
        self.now = 1000.0
        self.ended: list[str] = []
        self.end_noted = threading.Event()
        self.acquired = threading.Event()
        self.looks = 0
        self.part = Leadership(self.store, "me", timing, looked=self._looked, clock=lambda: self.now, end=self._end)

    def _looked(self) -> None:
        self.looks += 1

    def _end(self, reason: str) -> None:
        self.ended.append(reason)
        self.end_noted.set()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def running() -> Iterator[Bench]:
    """One with its threads."""
    bench = Bench(HASTY)
    bench.part.start(bench.acquired.set)
    yield bench
    bench.part.release(PATIENCE)


class TestRound:
    def test_a_free_lease_is_taken(self, bench: Bench) -> None:
        bench.part.round()
        assert bench.part.leads()
        assert bench.store.holder == "me"
        assert bench.looks

    def test_a_lease_of_somebody_else_is_left_alone(self, bench: Bench) -> None:
        bench.store.put(holderIdentity="other", leaseDurationSeconds=15)
        bench.part.round()
        bench.now += 14
        bench.part.round()
        assert not bench.part.leads()
        bench.now += 1
        bench.part.round()
        assert bench.part.leads()
        assert bench.store.raw is not None
        assert bench.store.raw["spec"]["leaseTransitions"] == 1

    def test_of_two_that_claim_at_once_one_loses(self, bench: Bench) -> None:
        def be_faster() -> None:
            bench.store.before_write = lambda: None
            bench.store.put(holderIdentity="other", leaseDurationSeconds=15)

        bench.store.before_write = be_faster
        bench.part.round()
        assert not bench.part.leads()
        assert bench.store.holder == "other"

    def test_a_renewal_is_one_write(self, bench: Bench) -> None:
        bench.part.round()
        before = bench.store.writes
        bench.now += 9
        bench.part.round()
        assert bench.store.writes == before + 1
        bench.now += 9
        assert bench.part.leads()

    def test_what_others_change_beside_it_is_renewed_over(self, bench: Bench) -> None:
        bench.part.round()
        assert bench.store.raw is not None
        bench.store.put(**bench.store.raw["spec"])
        bench.now += 9
        bench.part.round()
        bench.now += 9
        assert bench.part.leads()
        assert not bench.ended

    def test_a_lease_that_was_deleted_is_made_anew(self, bench: Bench) -> None:
        bench.part.round()
        bench.store.raw = None
        bench.part.round()
        assert bench.store.holder == "me"
        assert not bench.ended

    def test_a_leader_that_meets_another_holder_ends(self, bench: Bench) -> None:
        bench.part.round()
        bench.store.put(holderIdentity="other", leaseDurationSeconds=15)
        bench.part.round()
        assert not bench.part.leads()
        assert bench.ended == ["the Lease system/lease is held by other"]

    @pytest.mark.parametrize("error", [errors.Unavailable("HTTP 503", status=503), errors.Refused("no", status=403)])
    def test_an_error_is_the_callers_and_the_next_round_goes_on(self, bench: Bench, error: Exception) -> None:
        bench.part.round()
        bench.store.failing = [error]
        with pytest.raises(type(error)):
            bench.part.round()
        assert bench.part.leads()
        bench.now += 9
        bench.part.round()
        bench.now += 9
        assert bench.part.leads()

    def test_who_may_read_a_free_lease_and_not_take_it_is_not_well(self, bench: Bench) -> None:
        bench.store.failing = [None, errors.Refused("no", status=403)]
        with pytest.raises(errors.Refused):
            bench.part.round()
        assert not bench.looks
        bench.store.put(holderIdentity="other", leaseDurationSeconds=15)
        bench.part.round()
        assert bench.looks == 1

    def test_a_namespace_that_is_not_there_is_an_error(self, bench: Bench) -> None:
        bench.store.failing = [None, errors.NotFound('namespaces "system" not found', status=404)]
        with pytest.raises(errors.NotFound, match="namespaces"):
            bench.part.round()


class TestWrites:
    def test_no_write_leaves_before_the_lease_is_held_or_after_the_deadline(self, bench: Bench) -> None:
        with pytest.raises(errors.Unavailable, match="Lease"):
            bench.part.check()
        bench.part.round()
        bench.part.check()
        bench.now += 10
        with pytest.raises(errors.Unavailable, match="Lease"):
            bench.part.check()


class TestThreads:
    def test_it_is_told_once_that_it_leads_and_the_lease_is_renewed(self, running: Bench) -> None:
        assert running.acquired.wait(PATIENCE)
        running.acquired.clear()
        writes = running.store.writes
        wait_until(lambda: running.store.writes > writes + 3)
        assert not running.acquired.is_set()

    def test_at_the_deadline_the_process_ends_though_a_call_hangs(self, running: Bench) -> None:
        hanging, release = threading.Event(), threading.Event()

        def hang() -> None:
            hanging.set()
            release.wait(PATIENCE)

        assert running.acquired.wait(PATIENCE)
        running.store.before_write = hang
        assert hanging.wait(PATIENCE)
        assert not running.ended
        running.now += 10
        assert running.end_noted.wait(PATIENCE)
        assert "could not be renewed within 10 s" in running.ended[0]
        release.set()

    def test_an_error_in_a_round_ends_no_thread(self, running: Bench) -> None:
        assert running.acquired.wait(PATIENCE)
        running.store.failing = [errors.Unavailable("away"), KeyError("a bug")]
        wait_until(lambda: not running.store.failing)
        writes = running.store.writes
        wait_until(lambda: running.store.writes > writes)


class TestRelease:
    def test_the_lease_is_given_back_and_nothing_is_written_after_that(self, running: Bench) -> None:
        assert running.acquired.wait(PATIENCE)
        assert running.part.release(PATIENCE)
        assert running.store.holder is None
        assert not running.part.leads()
        assert not running.ended
        with pytest.raises(errors.Unavailable):
            running.part.check()

    def test_who_does_not_hold_it_gives_nothing_back(self) -> None:
        bench = Bench(HASTY)
        bench.store.put(holderIdentity="other", leaseDurationSeconds=15)
        bench.part.start(bench.acquired.set)
        wait_until(lambda: bench.looks > 1)
        assert not bench.part.release(PATIENCE)
        assert bench.store.holder == "other"

    def test_a_renewal_of_unknown_end_is_given_back_too(self, running: Bench) -> None:
        assert running.acquired.wait(PATIENCE)

        def taken_without_answer() -> None:
            running.store.before_write = lambda: None
            assert running.store.raw is not None
            running.store.put(**running.store.raw["spec"])
            running.part._stopping.set()
            raise errors.Unavailable("no answer")

        running.store.before_write = taken_without_answer
        wait_until(running.part._stopping.is_set)
        assert running.part.release(PATIENCE)
        assert running.store.holder is None

    def test_where_the_api_is_away_the_process_ends_all_the_same(self, running: Bench) -> None:
        assert running.acquired.wait(PATIENCE)
        running.store.before_write = raising(errors.Unavailable("away"))
        assert not running.part.release(PATIENCE)
        assert not running.part.leads()


class TestIdentity:
    def test_a_pod_keeps_its_name_over_restarts_of_its_container(self) -> None:
        assert identity_of({"POD_NAME": "operator-1", "POD_UID": "u"}) == "operator-1_u"

    def test_elsewhere_no_two_processes_have_one_name(self) -> None:
        assert identity_of({"POD_NAME": "operator-1"}) != identity_of({"POD_NAME": "operator-1"})

    def test_the_clock_does_not_go_back(self) -> None:
        assert leadership.boot_time() <= leadership.boot_time()


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def wait_until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("it did not come to that")
