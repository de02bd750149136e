"""Several replicas of a model server behind a headless Service, on the cluster's own DNS."""

import json
import time
from collections.abc import Iterator

import httpx
import pytest
from hack.quickstart import port_forward

from e2e.quickstart import Quickstart, chat_line

REPLICAS = 2
LINES = 300
HEADLESS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "model-replicas"},
    "spec": {
        "clusterIP": "None",
        "selector": {"app.kubernetes.io/name": "model-server"},
        "ports": [{"name": "http", "port": 8000}],
    },
}


@pytest.fixture
def replicas(quickstart: Quickstart) -> Iterator[list[str]]:
    """Names of the model server's pods, all of them ready and behind the headless Service."""
    quickstart.kubectl("apply", "-f", "-", stdin=json.dumps(HEADLESS))
    _scale(quickstart, REPLICAS)
    yield _pods(quickstart)
    _scale(quickstart, 1)
    quickstart.kubectl("delete", "service", "model-replicas")


def test_they_share_the_load_and_one_that_dies_loses_nothing(quickstart: Quickstart, replicas: list[str]) -> None:
    name = quickstart.name("replicas")
    lines = [chat_line(f"{name}-{number}", stub="delay=0.4") for number in range(LINES)]
    quickstart.apply(
        name,
        quickstart.put(f"in/{name}.jsonl", lines),
        server={"service": {"name": "model-replicas", "port": 8000}},
        requests={"maxConcurrency": 8, "concurrency": "Fixed", "retries": 0},
    )
    arrived = _arrivals_once(replicas, at_least=LINES // 4)
    assert min(arrived) > max(arrived) / 2
    quickstart.kubectl("delete", "pod", replicas[0], "--grace-period=0", "--force")
    status = quickstart.wait(name, "completed")["status"]
    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    ids = [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])]
    assert ids == [f"{name}-{number}" for number in range(LINES)]


def _arrivals_once(pods: list[str], *, at_least: int) -> list[int]:
    """How many requests each pod has got, once so many have arrived in all."""
    with port_forward(f"pod/{pods[0]}", 8001) as first, port_forward(f"pod/{pods[1]}", 8001) as second:
        urls = [f"http://{address}/stub/arrivals?last=0" for address in (first, second)]
        end = time.monotonic() + 120
        while True:
            arrived = [httpx.get(url, timeout=30).raise_for_status().json()["total"] for url in urls]
            if sum(arrived) >= at_least:
                return arrived
            assert time.monotonic() < end, f"only {arrived} requests arrived"
            time.sleep(0.1)


def _scale(quickstart: Quickstart, replicas: int) -> None:
    quickstart.kubectl("scale", "deployment/model-server", f"--replicas={replicas}")
    quickstart.kubectl("rollout", "status", "deployment/model-server", "--timeout=120s")
    end = time.monotonic() + 120
    while len(_pods(quickstart)) != replicas:
        assert time.monotonic() < end, f"there are still {_pods(quickstart)}"
        time.sleep(0.5)


def _pods(quickstart: Quickstart) -> list[str]:
    selector = "--selector=app.kubernetes.io/name=model-server"
    return quickstart.kubectl("get", "pods", selector, "-o", "jsonpath={.items[*].metadata.name}").split()
