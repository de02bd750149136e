"""A whole run against several replicas of a server behind one name."""

import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from batchwright.worker.transport import spread
from batchwright.worker.transport.spread import Pace
from fixtures.worker import JobUnderTest, chat_line, chat_lines, ids, wait_until
from integration.worker.transport.replicas import HOST, Replicas, replicas

LONG_PREFIX = 2000
"""Characters of a prompt's beginning: more than enough to count as a prefix."""


@pytest.fixture(scope="module")
def all_three() -> Iterator[Replicas]:
    with replicas(3) as made:
        yield made


@pytest.fixture
def three(all_three: Replicas, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """Three replicas as they are after their start, and a name that stands for them."""
    all_three.reset()
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host != HOST:
            return look_up(host, port, *arguments, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in all_three.addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return all_three


def against(job: JobUnderTest, three: Replicas, **requests: Any) -> JobUnderTest:
    return replace(job, server_url=three.url).with_spec(requests={"concurrency": "Fixed", **requests})


@contextmanager
def in_background(action: Callable[[], None]) -> Iterator[None]:
    """Do something to the servers while the body runs."""
    thread = threading.Thread(target=action)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_replicas_share_the_requests_of_all_workers(job: JobUnderTest, three: Replicas) -> None:
    lines = chat_lines(300, "delay=0.2")
    against(job, three, maxConcurrency=12).with_spec(sharding={"linesPerShard": 50}).input(lines).complete(workers=2)
    assert ids(job.published("results.jsonl")) == ids(lines)
    assert all(count >= 30 for count in three.arrivals().values())  # a slow one gets less, and should


def test_requests_with_one_prefix_go_to_one_replica(job: JobUnderTest, three: Replicas) -> None:
    prefixes = [f"{number} " * (LONG_PREFIX // 3) for number in range(10, 50)]
    lines = [
        chat_line(
            f"{prefix[:2]}-{number}", "delay=0.05-0.3", messages=[{"role": "user", "content": f"{prefix}{number}"}]
        )
        for number in range(3)
        for prefix in prefixes
    ]
    against(job, three, maxConcurrency=24).with_spec(sharding={"linesPerShard": len(lines)}).input(lines).complete()
    homes = defaultdict[str, Counter[str]](Counter)
    for address, arrived in three.arrived().items():
        for custom_id in arrived:
            homes[custom_id[:2]][address] += 1
    at_home = [prefix for prefix, home in homes.items() if max(home.values()) == 3]
    assert len(homes) == 40
    assert len(at_home) >= 20, homes  # by chance one in nine


@pytest.mark.parametrize("way", ["stops", "refuses what is new and leaves the rest open"])
def test_a_replica_that_falls_silent_in_mid_run_loses_nothing(
    job: JobUnderTest, three: Replicas, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Pace(tick=0.1, silence=0.5, answer=0.5)
    monkeypatch.setattr(spread, "Pace", lambda: quick)
    lines = chat_lines(180, "delay=0.1")
    running = against(job, three, maxConcurrency=12, retries=0).input(lines)
    planned = running.plan()
    silent = three.stubs["127.0.0.2"]

    def silence() -> None:
        wait_until(lambda: silent.stats().total > 4)
        if way == "stops":
            silent.stop_answering()
        else:
            silent.switch(freeze=True, drain=True)

    try:
        with in_background(silence):
            running.work(planned)
    finally:
        silent.go_on()
    wait_until(lambda: three.arrivals().total() > 180)  # what it had was sent again
    counts = running.merge(planned).request_counts
    assert (counts.completed, counts.failed) == (180, 0)
    assert ids(job.published("results.jsonl")) == ids(lines)


def test_a_replica_that_dies_in_mid_run_loses_nothing(job: JobUnderTest, three: Replicas) -> None:
    lines = chat_lines(180, "delay=0.1")
    running = against(job, three, maxConcurrency=12, retries=0).input(lines)
    planned = running.plan()
    dying = three.stubs["127.0.0.2"]

    def kill() -> None:
        wait_until(lambda: dying.stats().total > 4)
        dying.kill()

    with in_background(kill):
        running.work(planned)
    three.start("127.0.0.2")
    counts = running.merge(planned).request_counts
    assert (counts.completed, counts.failed) == (180, 0)
    assert ids(job.published("results.jsonl")) == ids(lines)
