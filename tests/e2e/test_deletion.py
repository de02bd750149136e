"""A BatchJob goes within seconds whatever it is at, and takes along what it made; its results stay.

All BatchJobs of this file begin together: most of the time they only have to get to where they are deleted.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.conftest import fresh_quickstart
from e2e.quickstart import BUCKET, OPERATOR_NAMESPACE, Quickstart, chat_line
from fixtures.cluster import Cluster, eventually

SECONDS = 60
"""What a deletion may take at most: kopf gives a loop 7 s to end. Pods have longer, for what is in flight."""
PHASES = ("pending", "validating", "in_progress", "finalizing", "completed", "cancelling")
NOWHERE = {"nodeSelector": {"no-such": "label"}}
ONE_WORKER: dict[str, Any] = {
    "sharding": {"parallelism": 1},
    "worker": {"resources": {"requests": {"cpu": "50m"}}},  # all of them must find room at once
}
SOON: dict[str, Any] = {"timeout": "5s", "maxConcurrency": 4}
"""Kubernetes looks at a namespace again after half of the longest grace period, which is the time limit and 30 s."""


@dataclass(frozen=True)
class Begun:
    """The names of BatchJobs: one that gets to each phase and stays there, and others."""

    by_phase: dict[str, str]
    pending_later: str
    running_later: str
    short_lived: str
    doomed: str
    elsewhere: Quickstart


@pytest.fixture(scope="module")
def begun(cluster: Cluster, quickstart_bucket: Any) -> Iterator[Begun]:
    """All BatchJobs of this file."""
    with fresh_quickstart(cluster, quickstart_bucket) as quickstart:
        name = quickstart.name
        found = Begun(
            by_phase={phase: name(phase.replace("_", "-")) for phase in PHASES},
            pending_later=name("pending-later"),
            running_later=name("running-later"),
            short_lived=name("short"),
            doomed=name("doomed"),
            elsewhere=quickstart.elsewhere(quickstart.cluster.make_namespace("doomed")),
        )
        try:
            _begin(quickstart, found)
            yield found
        finally:
            cluster.delete_namespace(found.elsewhere.namespace)


def _begin(quickstart: Quickstart, begun: Begun) -> None:
    def put(what: str, count: int, delay: int) -> str:
        lines = [chat_line(f"{what}-{number}", stub=f"delay={delay}") for number in range(count)]
        return quickstart.put(f"in/{begun.short_lived}-{what}.jsonl", lines)

    slow, quick, one_by_one = put("slow", 400, 4), put("quick", 1, 8), put("one", 40, 8)
    names, apply = begun.by_phase, quickstart.apply
    apply(names["completed"], put("done", 1, 0), **ONE_WORKER)
    apply(names["in_progress"], slow, **ONE_WORKER)
    apply(names["cancelling"], one_by_one, requests={"maxConcurrency": 1}, **ONE_WORKER)
    begun.elsewhere.apply(begun.doomed, slow, requests=SOON, **ONE_WORKER)
    apply(begun.running_later, slow, **ONE_WORKER)
    apply(begun.short_lived, put("short", 1, 0), ttlSecondsAfterFinished=1, **ONE_WORKER)
    apply(names["validating"], slow, server={"url": "http://no-such-server:8000"})
    apply(names["pending"], slow, worker=NOWHERE)
    apply(begun.pending_later, slow, worker=NOWHERE)
    apply(names["finalizing"], quick, **ONE_WORKER)  # the last one, since its run is soon over
    quickstart.wait(names["finalizing"], "in_progress")
    quickstart.patch(names["finalizing"], worker=NOWHERE)  # for the next pod: that of the merge
    begun.elsewhere.wait(begun.doomed, "in_progress")
    begun.elsewhere.cluster.kubectl("delete", "namespace", begun.elsewhere.namespace, "--wait=false")


def test_in_every_phase_it_is_gone_within_seconds(quickstart: Quickstart, begun: Begun) -> None:
    uids = []
    for phase, name in begun.by_phase.items():
        if phase == "cancelling":
            quickstart.wait(name, "in_progress")
            quickstart.patch(name, cancel=True)
        uids.append(quickstart.wait(name, phase)["metadata"]["uid"])
    quickstart.kubectl("delete", "batchjob", *begun.by_phase.values(), "--wait", f"--timeout={SECONDS}s")
    for uid in uids:
        selector = f"--selector=batchwright.dev/batchjob-uid={uid}"
        quickstart.kubectl("wait", "--for=delete", "jobs,pods,configmaps", selector, "--timeout=60s")


@pytest.fixture
def scale_operator(cluster: Cluster) -> Iterator[Any]:
    """Sets how many operators there are; afterwards there are as many as before."""
    deployment = ("--namespace", OPERATOR_NAMESPACE, "deployment/batchwright-operator")
    replicas = json.loads(cluster.kubectl("get", *deployment, "-o", "json"))["spec"]["replicas"]

    def scale(count: int) -> None:
        cluster.kubectl("scale", *deployment, f"--replicas={count}")
        if count:
            cluster.kubectl("rollout", "status", *deployment, "--timeout=90s")
        else:
            eventually(no_operator, seconds=60)

    def no_operator() -> None:
        pods = ("get", "pods", "--selector=app.kubernetes.io/name=batchwright-operator", "-o", "name")
        assert not cluster.kubectl("--namespace", OPERATOR_NAMESPACE, *pods).strip()

    yield scale
    scale(replicas)


def test_with_the_operator_down_it_is_gone_once_the_operator_is_back(
    quickstart: Quickstart, begun: Begun, scale_operator: Any
) -> None:
    names = begun.pending_later, begun.running_later
    for name, phase in zip(names, ("pending", "in_progress"), strict=True):
        quickstart.wait(name, phase)
    scale_operator(0)
    quickstart.kubectl("delete", "batchjob", *names, "--wait=false")
    for name in names:
        assert quickstart.get(name)["metadata"]["deletionTimestamp"], "its finalizer holds it"
    scale_operator(1)
    eventually(lambda: _are_gone(quickstart, *names), seconds=SECONDS)


def test_a_finished_one_goes_by_itself_and_its_results_stay(quickstart: Quickstart, begun: Begun) -> None:
    name = begun.short_lived
    eventually(lambda: _are_gone(quickstart, name), seconds=120)
    results = quickstart.lines_at(f"s3://{BUCKET}/out/{name}/results.jsonl")
    assert [line["custom_id"] for line in results] == ["short-0"]


def test_a_namespace_is_gone_in_mid_run(begun: Begun) -> None:
    """Its deletion began with this file: Kubernetes looks at it only now and then."""

    def is_gone() -> None:
        assert not begun.elsewhere.cluster.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name")

    namespace = begun.elsewhere.namespace
    eventually(is_gone, seconds=60)


def _are_gone(quickstart: Quickstart, *names: str) -> None:
    assert not quickstart.kubectl("get", "batchjob", *names, "--ignore-not-found", "-o", "name")
