"""Two replicas of vLLM behind a headless Service share a BatchJob: by the load, and by how prompts begin."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from e2e.quickstart import Quickstart
from vllm.cluster.model_server import REPLICAS_URL, ModelServer
from vllm.cluster.request_lines import assert_whole, chat_line

PREFIXES = 80
LINES_OF_EACH = 5
LINES = PREFIXES * LINES_OF_EACH
BEGINNING = " ".join(f"rule {number} is to be short" for number in range(36))


LOG_REQUESTS = {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--enable-log-requests"}
TWO = {"op": "replace", "path": "/spec/replicas", "value": 2}


@dataclass(frozen=True)
class SharedRun:
    """A BatchJob that two replicas worked for."""

    received: list[list[int]]
    """The lines that each replica was sent, by their place in the input."""


@pytest.fixture(scope="module")
def run(batches: Quickstart, deployed: ModelServer) -> Iterator[SharedRun]:
    with deployed.changed(LOG_REQUESTS, TWO):
        pods = deployed.wait_ready()
        name = batches.name("replicas")
        lines = _lines(name)
        batches.apply(
            name,
            batches.put(f"in/{name}.jsonl", lines),
            server={"url": REPLICAS_URL},
            sharding={"parallelism": 1},
            requests={"maxConcurrency": 16, "concurrency": "Fixed"},
        )
        results = assert_whole(batches, name, lines)
        numbers = {str(line["response"]["request_id"]): number for number, line in enumerate(results)}
        yield SharedRun([[numbers[one] for one in deployed.received(pod) if one in numbers] for pod in pods])


def _lines(name: str) -> list[dict[str, Any]]:
    """Prompts in groups that begin alike, those of a group far apart in the file."""
    return [
        chat_line(f"{number}-{prefix}", f"{name} {prefix} {BEGINNING} {number}", tokens=8 + 10 * number)
        for number in range(LINES_OF_EACH)
        for prefix in range(PREFIXES)
    ]


def test_each_gets_a_good_part(run: SharedRun) -> None:
    # What is in flight is shared evenly. The replica that answers faster, or is known earlier, gets more.
    assert sorted(chain.from_iterable(run.received)) == list(range(LINES))
    assert min(map(len, run.received)) > LINES / 6


def test_what_begins_alike_goes_to_one_replica(run: SharedRun) -> None:
    homes = [{line % PREFIXES for line in received} for received in run.received]
    in_one = PREFIXES - len(set.intersection(*homes))
    # By chance it were one beginning of sixteen; that all keep to theirs, an even load doesn't allow.
    assert in_one > PREFIXES / 2, f"{in_one} of {PREFIXES}"
