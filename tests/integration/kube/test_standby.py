"""The operator's process while another one holds the Lease."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from batchwright.controller.main import LEASE_NAME
from fixtures.candidates import PATIENCE, kubeconfig_for
from fixtures.cluster import eventually
from fixtures.kubernetes_http import HttpApi

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/system/leases/{LEASE_NAME}"


@dataclass
class Standby:
    """The process, its API server and its addresses."""

    process: subprocess.Popen[bytes]
    api: HttpApi
    liveness: str
    metrics: str


def free_ports() -> tuple[int, int]:
    """Two at once, so that they differ."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        return first.getsockname()[1], second.getsockname()[1]


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[Standby]:
    liveness, metrics = free_ports()
    with HttpApi() as api:
        api.put(
            LEASE,
            {"metadata": {"name": LEASE_NAME}, "spec": {"holderIdentity": "another", "leaseDurationSeconds": 300}},
        )
        settings = {
            "KUBECONFIG": str(kubeconfig_for(api, tmp_path)),
            "BATCHWRIGHT_LEADER_ELECTION": "true",
            "BATCHWRIGHT_LEASE_NAMESPACE": "system",
            "BATCHWRIGHT_LIVENESS_PORT": str(liveness),
            "BATCHWRIGHT_METRICS_PORT": str(metrics),
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATCHWRIGHT_")}
        process = subprocess.Popen([sys.executable, "-m", "batchwright.controller.main"], env=inherited | settings)
        try:
            yield Standby(process, api, f"http://127.0.0.1:{liveness}", f"http://127.0.0.1:{metrics}")
        finally:
            process.kill()
            process.wait(PATIENCE)


def test_it_serves_its_probes_touches_nothing_and_ends_when_it_is_told(standby: Standby) -> None:
    with httpx.Client(trust_env=False, timeout=10) as client:

        def is_ready() -> None:
            try:
                assert client.get(f"{standby.metrics}/readyz").status_code == 200
            except httpx.TransportError as error:
                raise AssertionError("it doesn't listen yet") from error

        eventually(is_ready, seconds=PATIENCE)
        assert client.get(f"{standby.liveness}/healthz").status_code == 200
        shown = client.get(f"{standby.metrics}/metrics").text
    assert "\nbatchwright_leader 0.0\n" in shown
    assert "batchwright_batchjobs{" not in shown
    standby.process.send_signal(signal.SIGTERM)
    assert standby.process.wait(PATIENCE) == 0
    assert set(standby.api.requests) == {("GET", LEASE)}
