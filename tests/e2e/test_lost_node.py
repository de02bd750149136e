"""A node that is lost in the middle of a run and does not come back.

It takes minutes, above all the grace period of pods that nobody can ask any more: `make test-nodes` runs it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from e2e.quickstart import NAMESPACE, OPERATOR_NAMESPACE, Quickstart, chat_line
from fixtures.cluster import ROOT, eventually

NODE = "node-2"
LINES = 1500
WORKERS = 2
IN_FLIGHT = 4
"""Of each worker."""
ANSWER_SECONDS = 0.2
SEGMENT_LINES = round(2 * IN_FLIGHT * 5 / ANSWER_SECONDS)
"""What a worker finishes in the 5 s between two segments, and as much again for the time that writing takes."""

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(600)]


def hack_cluster(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "hack.cluster", *arguments], cwd=ROOT, check=True, timeout=180)


@pytest.fixture
def lonely_node(quickstart: Quickstart) -> Iterator[str]:
    """A node on which nothing of the quickstart runs, and which may be killed. It lives again after the test."""
    kubectl = quickstart.cluster.kubectl
    assert NODE in kubectl("get", "nodes", "-o", "name"), "this test needs a second node: make cluster-up NODES=2"
    for namespace in (NAMESPACE, OPERATOR_NAMESPACE):
        there = f"spec.nodeName={NODE},status.phase=Running"
        pods = kubectl("--namespace", namespace, "get", "pods", "--field-selector", there, "-o", "name")
        assert not pods, f"pods run on {NODE} that would be lost with it: {pods}"
    kubectl("uncordon", NODE)
    try:
        yield NODE
    finally:
        kubectl("cordon", NODE)
        if "True" not in kubectl("get", "node", NODE, "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'):
            hack_cluster("revive-node", NODE)


def workers_on(quickstart: Quickstart, name: str, node: str) -> list[str]:
    pods = json.loads(quickstart.kubectl("get", "pods", "-o", "json", "--field-selector", f"spec.nodeName={node}"))
    return [
        pod["metadata"]["name"]
        for pod in pods["items"]
        if pod["metadata"]["name"].startswith(f"{name}-") and "-run-" in pod["metadata"]["name"]
    ]


def test_a_lost_node_loses_no_line_and_little_is_sent_twice(quickstart: Quickstart, lonely_node: str) -> None:
    quickstart.switch(delay=str(ANSWER_SECONDS))
    name = quickstart.name("lost")
    lines = [chat_line(f"line-{number}") for number in range(LINES)]
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [lonely_node]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [there]}}]
    quickstart.apply(
        name,
        quickstart.put(f"in/{name}.jsonl", lines),
        sharding={"parallelism": WORKERS, "linesPerShard": 150},
        requests={"maxConcurrency": IN_FLIGHT, "timeout": "5s"},
        worker={"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}},
    )

    def some_are_sent() -> None:
        assert sum(quickstart.arrivals().values()) > LINES / 5

    eventually(some_are_sent, seconds=180)
    lost = workers_on(quickstart, name, lonely_node)
    assert len(lost) == WORKERS
    hack_cluster("kill-node", lonely_node)
    killed_at = time.monotonic()
    sent_before = sum(quickstart.arrivals().values())
    assert sent_before < LINES

    def sent_again() -> None:
        assert sum(quickstart.arrivals().values()) > sent_before + 2 * WORKERS * IN_FLIGHT

    eventually(sent_again, seconds=300)
    print(f"requests again {time.monotonic() - killed_at:.0f} s after the node was lost")
    status = quickstart.wait(name, "completed", seconds=300)["status"]

    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    results = quickstart.lines_at(status["output"]["uri"])
    assert [line["custom_id"] for line in results] == [line["custom_id"] for line in lines]
    arrivals = quickstart.arrivals()
    assert set(arrivals) == {line["custom_id"] for line in lines}
    assert max(arrivals.values()) <= 2, "one loss sends a request twice at most"
    assert sum(arrivals.values()) - LINES <= WORKERS * (IN_FLIGHT + SEGMENT_LINES)
