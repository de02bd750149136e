"""Rounds are made by one replica at a time, and go on after whatever befalls one of them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from batchwright.election.candidate import Timing
from batchwright.gateway.keeper.loop import KeeperLoop, MayAct
from batchwright.kube import errors
from batchwright.storage.errors import StorageUnavailable
from fixtures.lease_in_memory import LeaseInMemory

HASTY = Timing(duration=15, renew_deadline=10, retry_period=0.02)
PATIENCE = 20.0


@contextmanager
def running(lease: LeaseInMemory, make_round: Callable[[MayAct], None], identity: str = "one") -> Iterator[None]:
    loop = KeeperLoop(lease, identity, make_round, interval=0.02, timing=HASTY)
    loop.start()
    try:
        yield
    finally:
        loop.stop(PATIENCE)


class Counted:
    """Counts rounds; raises the given ones first."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.count = 0
        self.happened = threading.Condition()

    def __call__(self, may_act: MayAct) -> None:
        with self.happened:
            self.count += 1
            self.happened.notify_all()
        may_act()
        if self.failures:
            raise self.failures.pop(0)

    def reached(self, count: int) -> bool:
        with self.happened:
            return self.happened.wait_for(lambda: self.count >= count, PATIENCE)


def test_of_two_replicas_one_makes_rounds_and_the_other_takes_over() -> None:
    lease, first, second = LeaseInMemory(), Counted(), Counted()
    with running(lease, first, "one"):
        assert first.reached(3)
        with running(lease, second, "two"):
            assert first.reached(first.count + 5)
            assert second.count == 0
    with running(lease, second, "two"):
        assert second.reached(2)


@pytest.mark.parametrize(
    "failure",
    [
        StorageUnavailable("ListObjectsV2", "s3://batches/"),
        errors.Unavailable("away", status=503),
        RuntimeError("nobody foresaw it"),
    ],
    ids=["the storage", "the API server", "a defect"],
)
def test_a_round_that_fails_is_followed_by_another(failure: Exception) -> None:
    rounds = Counted(failure)
    with running(LeaseInMemory(), rounds):
        assert rounds.reached(3)


def test_a_lost_lease_ends_the_round_and_the_next_one_waits_for_it() -> None:
    lease, refused, rounds = LeaseInMemory(), threading.Event(), Counted()

    def make_round(may_act: MayAct) -> None:
        rounds(may_act)
        if rounds.count == 1:
            lease.put(holderIdentity="somebody else", leaseDurationSeconds=15)
            try:
                for _ in range(2000):
                    may_act()
                    refused.wait(0.01)
            except errors.Unavailable:
                refused.set()
                lease.put(holderIdentity="", leaseDurationSeconds=1)
                raise

    with running(lease, make_round):
        assert refused.wait(PATIENCE)
        assert rounds.reached(2)


def test_an_end_in_the_middle_of_a_round_ends_it_at_its_next_step() -> None:
    begun, ended = threading.Event(), threading.Event()

    def make_round(may_act: MayAct) -> None:
        begun.set()
        try:
            while True:
                may_act()
        finally:
            ended.set()

    with running(LeaseInMemory(), make_round):
        assert begun.wait(PATIENCE)
    assert ended.is_set()
