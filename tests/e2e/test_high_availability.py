"""Two operators: the one that works is frozen, then one is deleted in mid-run. Nothing is lost, nothing is doubled."""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchwright.controller.main import LEASE_NAME
from batchwright.election.leadership import LOST_EXIT_CODE
from e2e.quickstart import OPERATOR_NAMESPACE, Quickstart, chat_line
from fixtures.cluster import Cluster, eventually

DEPLOYMENT = "deployment/batchwright-operator"
LINES = 700
TAKEOVER_SECONDS = 30.0
"""More than docs/high-availability.md promises: 16 s, and a Lease given back at once."""


def kubectl(cluster: Cluster, *arguments: str) -> str:
    return cluster.kubectl("--namespace", OPERATOR_NAMESPACE, *arguments)


@pytest.fixture
def two_operators(quickstart: Quickstart) -> Iterator[Quickstart]:
    """The quickstart with a second operator for one test."""
    kubectl(quickstart.cluster, "scale", DEPLOYMENT, "--replicas=2")
    kubectl(quickstart.cluster, "rollout", "status", DEPLOYMENT, "--timeout=60s")
    yield quickstart
    kubectl(quickstart.cluster, "scale", DEPLOYMENT, "--replicas=1")
    kubectl(quickstart.cluster, "rollout", "status", DEPLOYMENT, "--timeout=60s")
    eventually(lambda: _is_alone(quickstart.cluster), seconds=TAKEOVER_SECONDS)


def leader(cluster: Cluster) -> tuple[str, str]:
    """Name and UID of the pod that holds the Lease and is there."""
    holder = kubectl(cluster, "get", "lease", LEASE_NAME, "-o", "jsonpath={.spec.holderIdentity}")
    name, _, uid = holder.partition("_")
    assert name, "nobody holds the Lease"
    assert name in operators(cluster), f"{name} is gone"
    return name, uid


def operators(cluster: Cluster) -> list[str]:
    selector = "--selector=app.kubernetes.io/name=batchwright-operator"
    return kubectl(cluster, "get", "pods", selector, "-o", "jsonpath={.items[*].metadata.name}").split()


def _is_alone(cluster: Cluster) -> None:
    assert operators(cluster) == [leader(cluster)[0]]


def leader_other_than(cluster: Cluster, before: str) -> str:
    def check() -> str:
        name, _ = leader(cluster)
        assert name != before
        return name

    return eventually(check, seconds=TAKEOVER_SECONDS)


def process_of(pod_uid: str) -> int | None:
    """The operator's process, where the nodes are on this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"POD_UID={pod_uid}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if ours and b"batchwright-operator" in (folder / "cmdline").read_bytes():
                return int(folder.name)
        except OSError:
            continue
    return None


def metrics_of(cluster: Cluster, pod: str) -> str:
    return cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:9090/proxy/metrics")


def start(quickstart: Quickstart) -> str:
    """A BatchJob that has some answers, and others to come for some seconds."""
    name = quickstart.name("twice")
    lines = [chat_line(f"{name}-{number}", stub="delay=0.3") for number in range(LINES)]
    before = len(quickstart.arrivals())
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", lines))
    quickstart.wait_arrivals(before + 50)
    return name


def assert_nothing_is_doubled(quickstart: Quickstart, name: str) -> None:
    job = quickstart.wait(name, "completed")
    assert job["status"]["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    ids = [f"{name}-{number}" for number in range(LINES)]
    assert [line["custom_id"] for line in quickstart.lines_at(job["status"]["output"]["uri"])] == ids
    arrivals = quickstart.arrivals()
    assert {arrivals.get(request) for request in ids} == {1}
    children = quickstart.kubectl(
        "get", "jobs", f"-lbatchwright.dev/batchjob-uid={job['metadata']['uid']}", "-o", "json"
    )
    stages = Counter(child["metadata"]["labels"]["batchwright.dev/stage"] for child in json.loads(children)["items"])
    assert stages == {"plan": 1, "run": 1, "merge": 1}
    about = f"--field-selector=involvedObject.name={name},involvedObject.kind=BatchJob"
    reasons = quickstart.kubectl("get", "events", about, "-o", "jsonpath={.items[*].reason}").split()
    assert len(reasons) == len(set(reasons)), f"one event for each transition: {reasons}"
    assert "Completed" in reasons


def test_another_operator_takes_over_and_nothing_is_doubled(two_operators: Quickstart) -> None:
    quickstart, cluster = two_operators, two_operators.cluster
    frozen, uid = leader(cluster)
    name = start(quickstart)
    process = process_of(uid)
    if process is not None:
        os.kill(process, signal.SIGSTOP)
        second = leader_other_than(cluster, frozen)
        os.kill(process, signal.SIGCONT)
        eventually(lambda: _ended_as_a_lost_leader(cluster, frozen))
    else:
        kubectl(cluster, "delete", "pod", frozen, "--force", "--grace-period=0", "--wait=false")
        second = leader_other_than(cluster, frozen)
    assert_nothing_is_doubled(quickstart, name)

    name = start(quickstart)
    kubectl(cluster, "delete", "pod", second, "--wait=false")
    third = leader_other_than(cluster, second)
    assert_nothing_is_doubled(quickstart, name)

    eventually(lambda: _one_leads(cluster, third))


def _ended_as_a_lost_leader(cluster: Cluster, pod: str) -> None:
    path = "jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}"
    assert kubectl(cluster, "get", "pod", pod, "-o", path) == str(LOST_EXIT_CODE)


def _one_leads(cluster: Cluster, leading: str) -> None:
    """Each operator's metrics say whether it works, and only the one that does speaks of BatchJobs."""
    pods = operators(cluster)
    assert len(pods) == 2
    for pod in pods:
        text = metrics_of(cluster, pod)
        assert f"\nbatchwright_leader {float(pod == leading)}\n" in text
        assert bool(re.search(r"^batchwright_batchjobs\{", text, re.MULTILINE)) == (pod == leading)
