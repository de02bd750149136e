"""Two replicas of vLLM behind a headless Service share a BatchJob."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.quickstart import Quickstart
from vllm.cluster.model_server import REPLICAS_URL, ModelServer
from vllm.cluster.request_lines import assert_whole, chat_line

PREFIXES = 80
LINES_OF_EACH = 5
LINES = PREFIXES * LINES_OF_EACH
BEGINNING = " ".join(f"rule {number} is to be short" for number in range(36))


@dataclass(frozen=True)
class SharedRun:
    """A BatchJob that two replicas worked for."""

    answered: list[int]
    """Requests that each replica answered."""


@pytest.fixture(scope="module")
def run(batches: Quickstart, deployed: ModelServer) -> Iterator[SharedRun]:
    replicas = deployed.spec()["replicas"]
    deployed.scale(2)
    try:
        pods = deployed.wait_ready()
        before = [deployed.metrics(pod).answered for pod in pods]
        name = batches.name("replicas")
        lines = _lines(name)
        batches.apply(
            name,
            batches.put(f"in/{name}.jsonl", lines),
            server={"url": REPLICAS_URL},
            sharding={"parallelism": 1},
            requests={"maxConcurrency": 16, "concurrency": "Fixed"},
        )
        assert_whole(batches, name, lines)
        after = [deployed.metrics(pod).answered for pod in pods]
        yield SharedRun([late - early for early, late in zip(before, after, strict=True)])
    finally:
        deployed.scale(replicas)


def _lines(name: str) -> list[dict[str, Any]]:
    """Prompts in groups that begin alike, those of a group far apart in the file."""
    return [
        chat_line(f"{number}-{prefix}", f"{name} {prefix} {BEGINNING} {number}", tokens=8 + 10 * number)
        for number in range(LINES_OF_EACH)
        for prefix in range(PREFIXES)
    ]


def test_each_answers_a_good_part(run: SharedRun) -> None:
    # What is in flight is shared evenly. The replica that answers faster, or is known earlier, answers more.
    assert sum(run.answered) == LINES
    assert min(run.answered) > LINES / 6
