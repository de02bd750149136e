"""Two replicas of vLLM behind a headless Service share a BatchJob, each with the prompts that begin alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.quickstart import Quickstart
from vllm.cluster.model_server import REPLICAS_URL, ModelServer
from vllm.cluster.request_lines import assert_whole, cached_tokens, chat_line

PREFIXES = 80
LINES_OF_EACH = 5
LINES = PREFIXES * LINES_OF_EACH
BEGINNING = " ".join(f"rule {number} is to be short" for number in range(36))


@dataclass(frozen=True)
class SharedRun:
    """A BatchJob that two replicas worked for."""

    answered: list[int]
    """Requests that each replica answered."""
    results: list[dict[str, Any]]


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
        results = assert_whole(batches, name, lines)
        after = [deployed.metrics(pod).answered for pod in pods]
        yield SharedRun([late - early for early, late in zip(before, after, strict=True)], results)
    finally:
        deployed.scale(replicas)


def _lines(name: str) -> list[dict[str, Any]]:
    """Prompts in groups that begin alike, those of a group far apart in the file."""
    return [
        chat_line(f"{number}-{prefix}", f"{name} {prefix} {BEGINNING} {number}", tokens=24)
        for number in range(LINES_OF_EACH)
        for prefix in range(PREFIXES)
    ]


def test_each_answers_a_good_part(run: SharedRun) -> None:
    assert sum(run.answered) == LINES
    assert min(run.answered) > LINES / 3


def test_prompts_that_begin_alike_keep_to_a_replica(run: SharedRun) -> None:
    # Each replica that gets a beginning for the first time computes it. Were it chance which one a prompt goes to,
    # nearly all beginnings would be computed twice: for five lines, 1.94 times in the mean.
    computed = sum(cached_tokens(line) == 0 for line in run.results)
    assert PREFIXES <= computed < 1.5 * PREFIXES
