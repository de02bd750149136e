"""The quickstart's gateway as a client reaches it: an address, and the API key of the demo."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from hack.quickstart import NAMESPACE, kubectl_json, port_forward

from e2e.quickstart import OPERATOR_NAMESPACE, TERMINAL
from fixtures.cluster import Cluster

SELECTOR = "app.kubernetes.io/name=batchwright-gateway"
PORT = 8080
"""Of a pod; the Service's is 80."""

T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """Where the gateway is, and a key of the tenant `batchwright-demo`."""

    url: str
    key: str

    @property
    def base_url(self) -> str:
        """As clients of OpenAI want it."""
        return f"{self.url}/v1"


def demo_key() -> str:
    """The API key of the demo's user."""
    secret = kubectl_json("-n", NAMESPACE, "get", "secret", "gateway-demo-key")
    return base64.b64decode(secret["data"]["key"]).decode()


@contextmanager
def gateway_access(target: str = "service/gateway", port: int = 80) -> Iterator[Access]:
    """A tunnel to the gateway, or to one of its pods."""
    with port_forward(target, port, OPERATOR_NAMESPACE) as address:
        yield Access(f"http://{address}", demo_key())


def gateway_pods(cluster: Cluster) -> list[str]:
    """The names of the gateway's pods that are ready and stay."""
    listed = cluster.kubectl("-n", OPERATOR_NAMESPACE, "get", "pods", f"--selector={SELECTOR}", "-o", "json")
    return [
        pod["metadata"]["name"]
        for pod in json.loads(listed)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    ]


def wait_status(look: Callable[[], T], status: Callable[[T], str], *statuses: str, seconds: float = 240) -> T:
    """A batch once it has one of these statuses, by default any at which it has ended."""
    wanted = statuses or TERMINAL
    end = time.monotonic() + seconds
    while True:
        batch = look()
        if status(batch) in wanted:
            return batch
        assert status(batch) not in TERMINAL, batch
        assert time.monotonic() < end, batch
        time.sleep(0.5)
