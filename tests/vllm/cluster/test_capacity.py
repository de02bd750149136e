"""What is in flight follows what vLLM has room for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from e2e.quickstart import Quickstart
from vllm.cluster.model_server import URL, ModelServer
from vllm.cluster.request_lines import assert_whole, chat_lines

SLOTS = 8
MOST = 64
LINES = 500
TOKENS = 256


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
    use = _use(batches, deployed, small, concurrency="Adaptive")
    assert use.waited < 0.4
    assert use.places > SLOTS / 2


def test_a_fixed_one_makes_a_queue(batches: Quickstart, deployed: ModelServer, small: str) -> None:
    assert _use(batches, deployed, small, concurrency="Fixed").waited > 0.7


@dataclass(frozen=True)
class Use:
    """What a BatchJob of one worker made of the server's places."""

    waited: float
    """The part of its requests' time in the engine that they waited for a place. With 64 requests on eight places it is
    seven eighths; a worker that adapts has some wait at its start, too."""
    places: float
    """That were in use, in the mean while it was in progress."""


def _use(batches: Quickstart, server: ModelServer, pod: str, *, concurrency: str) -> Use:
    name = batches.name("capacity")
    requests = chat_lines(name, LINES, tokens=TOKENS)
    before = server.metrics(pod)
    batches.apply(
        name,
        batches.put(f"in/{name}.jsonl", requests),
        server={"url": URL},
        sharding={"parallelism": 1},
        requests={"maxConcurrency": MOST, "concurrency": concurrency},
    )
    assert_whole(batches, name, requests)
    after = server.metrics(pod)
    queued, worked_on = after.queued - before.queued, after.worked_on - before.worked_on
    at = batches.get(name)["status"]
    seconds = (datetime.fromisoformat(at["finalizingAt"]) - datetime.fromisoformat(at["inProgressAt"])).total_seconds()
    return Use(waited=queued / (queued + worked_on), places=worked_on / seconds)
