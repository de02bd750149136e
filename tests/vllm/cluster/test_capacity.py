"""What is in flight follows what vLLM has room for, as its own metrics show it."""

import statistics
from collections.abc import Iterator

import pytest

from e2e.quickstart import TERMINAL, Quickstart
from fixtures.cluster import eventually
from vllm.cluster.model_server import URL, ModelServer
from vllm.cluster.request_lines import assert_whole, chat_lines

SLOTS = 8
MOST = 64
LEAST_LOOKS = 6


@pytest.fixture(scope="module")
def small(deployed: ModelServer) -> Iterator[str]:
    """The pod of a server that works on a few requests at once and lets the others wait."""
    flag = {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": f"--max-num-seqs={SLOTS}"}
    with deployed.changed(flag):
        (pod,) = deployed.wait_ready()
        yield pod


def test_adaptive_concurrency_fills_the_server_and_makes_no_queue(
    batches: Quickstart, deployed: ModelServer, small: str
) -> None:
    seen = _in_flight(batches, deployed, small, lines=500, concurrency="Adaptive")
    assert SLOTS / 2 <= _settled(seen) <= SLOTS + 1, str(seen)


def test_a_fixed_one_makes_a_queue(batches: Quickstart, deployed: ModelServer, small: str) -> None:
    seen = _in_flight(batches, deployed, small, lines=400, concurrency="Fixed")
    assert _settled(seen) > 1.5 * SLOTS, str(seen)


def _settled(seen: list[int]) -> float:
    """What was in flight in the second half of the time, as the median."""
    return statistics.median(seen[len(seen) // 2 :])


def _in_flight(batches: Quickstart, server: ModelServer, pod: str, *, lines: int, concurrency: str) -> list[int]:
    """Requests that the server had, running and waiting, looked at again and again during a BatchJob of one worker."""
    name = batches.name("capacity")
    requests = chat_lines(name, lines, tokens=600)
    batches.apply(
        name,
        batches.put(f"in/{name}.jsonl", requests),
        server={"url": URL},
        sharding={"parallelism": 1},
        requests={"maxConcurrency": MOST, "concurrency": concurrency},
    )
    seen: list[int] = []

    def ended() -> None:
        in_flight = server.metrics(pod).in_flight
        if in_flight:
            seen.append(in_flight)
        assert batches.get(name).get("status", {}).get("phase") in TERMINAL

    eventually(ended, seconds=300)
    assert_whole(batches, name, requests)
    assert len(seen) >= LEAST_LOOKS, f"it went by too fast to be seen: {seen}"
    return seen
