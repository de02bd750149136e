"""The vLLM that `make vllm-up` deployed, as a test sees and changes it."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from fixtures.cluster import Cluster, eventually

NAMESPACE = "batchwright-vllm"
PORT = 8000
URL = f"http://vllm.{NAMESPACE}:{PORT}"
REPLICAS_URL = f"http://vllm-replicas.{NAMESPACE}:{PORT}"
"""Of the headless Service: its name stands for the addresses of all replicas."""
EMBEDDING_URL = f"http://vllm-embedding.{NAMESPACE}:{PORT}"
START_SECONDS = 400.0
"""A start takes 40 s on a machine with nothing else to do."""
TRY_SECONDS = 60

FILL_MEMORY = "for n in $(seq 16); do dd if=/dev/zero bs=512M count=1 2>/dev/null | sleep 60 & done; wait"
"""Takes 8 GiB in pieces, each held by a process that is smaller than vLLM's: past the container's limit the kernel
kills the largest one."""

_RECEIVED = re.compile(r"Received request chatcmpl-(\S+): ")


@dataclass(frozen=True)
class ServerMetrics:
    """What a replica says of itself."""

    answered: int
    """Requests that ended since its start with a whole answer."""
    queued: float
    """Seconds that all requests since its start waited for a place in the engine."""
    worked_on: float
    """Seconds that all of them had one."""


@dataclass(frozen=True)
class ModelServer:
    """A Deployment of vLLM."""

    cluster: Cluster
    deployment: str = "vllm"

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.cluster.kubectl("--namespace", NAMESPACE, *arguments, stdin=stdin, check=check)

    def spec(self) -> dict[str, Any]:
        found = json.loads(self.kubectl("get", "deployment", self.deployment, "-o", "json"))["spec"]
        assert isinstance(found, dict)
        return found

    def pods(self) -> list[dict[str, Any]]:
        """Its pods, those that are about to go too."""
        listed = self.kubectl("get", "pods", self._selector, "-o", "json")
        return sorted(json.loads(listed)["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def pod_names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def scale(self, replicas: int) -> None:
        self.kubectl("scale", f"deployment/{self.deployment}", f"--replicas={replicas}")

    def restart(self) -> None:
        """As people do it: each pod gets its preStop pause and a SIGTERM, and the new one follows."""
        self.kubectl("rollout", "restart", f"deployment/{self.deployment}")

    @contextmanager
    def changed(self, *operations: Mapping[str, Any]) -> Iterator[None]:
        """The server with operations of JSON Patch applied to its Deployment; afterwards it is as it was before."""
        before = self.spec()
        self._patch(operations)
        try:
            self.wait_ready()
            yield
        finally:
            self._patch([{"op": "replace", "path": "/spec", "value": before}])

    def _patch(self, operations: Any) -> None:
        self.kubectl("patch", "deployment", self.deployment, "--type=json", "-p", json.dumps(list(operations)))

    def wait_ready(self) -> list[str]:
        """Names of the pods once there are as many as wanted, all of them ready and of the present spec."""

        def ready() -> list[str]:
            self.kubectl("rollout", "status", f"deployment/{self.deployment}", f"--timeout={TRY_SECONDS}s")
            names = self.pod_names()
            assert len(names) == self.spec()["replicas"], f"the pods are still {names}"
            return names

        return eventually(ready, seconds=START_SECONDS)

    def wait_gone(self) -> None:
        """Wait until it has no pod."""
        gone = ("wait", "--for=delete", "pod", self._selector, f"--timeout={TRY_SECONDS}s")
        eventually(lambda: self.kubectl(*gone), seconds=START_SECONDS)

    def metrics(self, pod: str) -> ServerMetrics:
        """The metrics of one of its pods.

        Raises:
            AssertionError: they can't be read.
        """
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{PORT}/proxy/metrics"
        totals: dict[str, float] = {}
        for family in text_string_to_metric_families(self.kubectl("get", "--raw", path)):
            for sample in family.samples:
                if sample.labels.get("finished_reason") != "abort":
                    totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
        return ServerMetrics(
            answered=int(totals.get("vllm:request_success_total", 0)),
            queued=totals.get("vllm:request_queue_time_seconds_sum", 0.0),
            worked_on=totals.get("vllm:request_inference_time_seconds_sum", 0.0),
        )

    def received(self, pod: str) -> list[str]:
        """The X-Request-Ids of the chats that a pod was sent, as its log has them with `--enable-log-requests`."""
        return _RECEIVED.findall(self.kubectl("logs", pod))

    def wait_answered(self, pod: str, count: int, *, seconds: float = 120) -> int:
        """How many requests a pod has answered since its start, once these are so many."""

        def answered() -> int:
            found = self.metrics(pod).answered
            assert found >= count, f"{pod} answered only {found} requests"
            return found

        return eventually(answered, seconds=seconds)

    def fill_memory(self, pod: str) -> str:
        """Take memory in the pod's container until its limit is passed; gives what was said to it."""
        return self.kubectl("exec", pod, "--", "sh", "-c", FILL_MEMORY, check=False)

    @property
    def _selector(self) -> str:
        return f"--selector=app.kubernetes.io/name={self.deployment}"
