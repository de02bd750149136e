"""The control plane: etcd, the API server, the controllers and the scheduler, as processes of the host."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from . import processes
from .commands import succeeds, wait_until
from .console import ClusterError
from .layout import API_PORT, CLUSTER_DOMAIN, HOST_ADDRESS, SERVICE_NETWORK, Layout
from .paths import cache_directory
from .programs import CONTROL_PLANE_PROGRAMS, Program

PROGRAMS: dict[str, Program] = {program.name: program for program in CONTROL_PLANE_PROGRAMS}
# A lost node shows after about ten seconds, instead of Kubernetes' five minutes, and its pods move.
TOLERATION_SECONDS = 5


def kubectl(layout: Layout, *arguments: str) -> tuple[str, ...]:
    """A kubectl command line with the administrator's rights."""
    # kubectl keeps a cache of the API's shape, below HOME unless told otherwise.
    cache = str(cache_directory() / "kubectl")
    return (
        *(str(PROGRAMS["kubectl"].path), "--kubeconfig", str(layout.kubeconfig("admin"))),
        *("--cache-dir", cache, "--request-timeout", "20s", *arguments),
    )


def start(layout: Layout) -> None:
    """Start those of the processes that do not run, and wait until the API server is ready.

    One that was left paused goes on.

    Raises:
        ClusterError: it did not become ready; the text names the log.
    """
    if not _runs("etcd", layout):
        _remove_sockets(layout)
    _start("etcd", _etcd(layout), layout)
    _start("kube-apiserver", _api_server(layout), layout)
    _signal_api_server(layout, signal.SIGCONT)
    _wait_until_ready(layout)
    _start("kube-controller-manager", _controller_manager(layout), layout)
    _start("kube-scheduler", _scheduler(layout), layout)


def pause_api_server(layout: Layout, seconds: float) -> None:
    """Let the API server hang: connections are taken, and nothing is answered. `start` mends a pause that was killed.

    Raises:
        ClusterError: it does not run.
    """
    if not _signal_api_server(layout, signal.SIGSTOP):
        raise ClusterError("kube-apiserver does not run: 'make cluster-up' starts it")
    try:
        time.sleep(seconds)
    finally:
        _signal_api_server(layout, signal.SIGCONT)
    _wait_until_ready(layout)


def stop_api_server(layout: Layout, seconds: float) -> None:
    """Kill the API server, and start it again after a while: meanwhile connections are refused.

    Raises:
        ClusterError: it does not run, or does not come back; the text says why.
    """
    if not _runs("kube-apiserver", layout):
        raise ClusterError("kube-apiserver does not run: 'make cluster-up' starts it")
    try:
        processes.kill(layout.state, "kube-apiserver")
        time.sleep(seconds)
    finally:
        start(layout)


def _wait_until_ready(layout: Layout) -> None:
    wait_until(
        lambda: succeeds(*kubectl(layout, "get", "--raw", "/readyz"), timeout=5),
        "kube-apiserver did not become ready",
        seconds=90,
        remedy=f"see {layout.logs}/kube-apiserver.log and etcd.log",
    )


def _signal_api_server(layout: Layout, number: signal.Signals) -> bool:
    process = processes.main_process(processes.find(), layout.state, "kube-apiserver")
    if process is not None:
        os.kill(process.pid, number)
    return process is not None


def _runs(name: str, layout: Layout) -> bool:
    return processes.main_process(processes.find(), layout.state, name) is not None


def _remove_sockets(layout: Layout) -> None:
    """A killed etcd leaves them, and the next one can't listen. Without those of a live one nobody could reach it."""
    for socket in (layout.etcd_socket, _peer_socket(layout)):
        socket.unlink(missing_ok=True)


def _peer_socket(layout: Layout) -> Path:
    return layout.runtime / "etcd-peer.sock"


def _start(name: str, options: dict[str, str], layout: Layout) -> None:
    if _runs(name, layout):
        return
    command = [str(PROGRAMS[name].path), *(f"--{option}={value}" for option, value in options.items())]
    processes.start(name, command, state=layout.state, log=layout.logs / f"{name}.log")


def _etcd(layout: Layout) -> dict[str, str]:
    # A store of one member calls nobody, but insists on addresses with ports.
    advertised = "http://etcd.invalid"
    return {
        "name": "batchwright",
        "data-dir": str(layout.state / "etcd"),
        "listen-client-urls": f"unix://{layout.etcd_socket}",
        "listen-peer-urls": f"unix://{_peer_socket(layout)}",
        "advertise-client-urls": f"{advertised}:2379",
        "initial-advertise-peer-urls": f"{advertised}:2380",
        "initial-cluster": f"batchwright={advertised}:2380",
        # A killed process loses nothing by it. A power cut may, and then the cluster is made anew.
        "unsafe-no-fsync": "true",
        "auto-compaction-retention": "5m",
        "log-level": "warn",
    }


def _api_server(layout: Layout) -> dict[str, str]:
    pki = layout.pki
    return {
        "etcd-servers": f"unix://{layout.etcd_socket}",
        # Only the cluster's own network, which ends at this machine, reaches the API.
        "bind-address": HOST_ADDRESS,
        "advertise-address": HOST_ADDRESS,
        "secure-port": str(API_PORT),
        "service-cluster-ip-range": SERVICE_NETWORK,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "default-not-ready-toleration-seconds": str(TOLERATION_SECONDS),
        "default-unreachable-toleration-seconds": str(TOLERATION_SECONDS),
        "client-ca-file": f"{pki}/ca.crt",
        "tls-cert-file": f"{pki}/kube-apiserver.crt",
        "tls-private-key-file": f"{pki}/kube-apiserver.key",
        # For `kubectl logs` and `kubectl exec`.
        "kubelet-client-certificate": f"{pki}/kubelet-client.crt",
        "kubelet-client-key": f"{pki}/kubelet-client.key",
        "kubelet-certificate-authority": f"{pki}/ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        "service-account-key-file": f"{pki}/service-accounts.pub",
        "service-account-signing-key-file": f"{pki}/service-accounts.key",
        # For API servers behind this one.
        "requestheader-client-ca-file": f"{pki}/ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": f"{pki}/front-proxy.crt",
        "proxy-client-key-file": f"{pki}/front-proxy.key",
    }


def _controller_manager(layout: Layout) -> dict[str, str]:
    pki = layout.pki
    return {
        "kubeconfig": str(layout.kubeconfig("kube-controller-manager")),
        "use-service-account-credentials": "true",
        "service-account-private-key-file": f"{pki}/service-accounts.key",
        "root-ca-file": f"{pki}/ca.crt",
        "cluster-signing-cert-file": f"{pki}/ca.crt",
        "cluster-signing-key-file": f"{pki}/ca.key",
        "node-monitor-period": "2s",
        "node-monitor-grace-period": "8s",
        "terminated-pod-gc-threshold": "200",
        "leader-elect": "false",
        "secure-port": "0",  # nobody asks it, and the usual port may be another cluster's
    }


def _scheduler(layout: Layout) -> dict[str, str]:
    return {
        "kubeconfig": str(layout.kubeconfig("kube-scheduler")),
        "leader-elect": "false",
        "secure-port": "0",
    }
