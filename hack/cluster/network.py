"""The bridge, the nodes' cables to it, and the host's routes to pods and Services."""

from __future__ import annotations

import contextlib
from pathlib import Path

from .commands import run, succeeds
from .console import ClusterError
from .layout import BRIDGE, HOST_ADDRESS, NETWORK_PREFIX, NODES, SERVICE_NETWORK, Node

# Where Docker's firewall drops what crosses a bridge, traffic between nodes needs a rule.
BRIDGE_CALLS_IPTABLES = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
FORWARD_RULE = ("FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT")


def make_bridge() -> None:
    """Make the bridge that carries the cluster, unless it is there."""
    # kube-proxy's rules see traffic between pods of a node only with this module, where it is one.
    succeeds("modprobe", "br_netfilter")
    if not _exists(BRIDGE):
        try:
            run("ip", "link", "add", BRIDGE, "type", "bridge")
        except ClusterError as error:
            raise ClusterError(f"this machine lets us make no network bridge: {error}") from None
    run("ip", "addr", "replace", f"{HOST_ADDRESS}/{NETWORK_PREFIX}", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    if _host_filters_bridges() and not succeeds("iptables", "-C", *FORWARD_RULE):
        run("iptables", "-I", *FORWARD_RULE)


def remove() -> None:
    """Remove bridge, cables, routes (they go with the interfaces) and the firewall rule."""
    for interface in (*(node.host_interface for node in NODES), BRIDGE):
        if _exists(interface):
            run("ip", "link", "delete", interface)
    while _host_filters_bridges() and succeeds("iptables", "-D", *FORWARD_RULE):
        pass


def connect(node: Node, pid: int) -> None:
    """Lay a cable from the bridge into the network namespace of process `pid`.

    The default route comes last: a node's first process waits for it.
    """
    with contextlib.suppress(ClusterError):  # left by a node that was killed a moment ago
        run("ip", "link", "delete", node.host_interface)
    run("ip", "link", "add", node.host_interface, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    run("ip", "link", "set", node.host_interface, "master", BRIDGE, "up")
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "addr", "add", f"{node.address}/{NETWORK_PREFIX}", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    for other in NODES:
        if other != node:
            run(*inside, "route", "replace", other.pod_network, "via", other.address)
    run(*inside, "route", "replace", "default", "via", HOST_ADDRESS)
    run("ip", "route", "replace", node.pod_network, "via", node.address, "dev", BRIDGE)


def connected(pid: int) -> bool:
    """Whether `connect` came to its end for the network namespace of process `pid`."""
    return succeeds("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "route", "get", "192.0.2.1")


def route_services(node: Node) -> None:
    """Send what the host sends to Services through `node`."""
    run("ip", "route", "replace", SERVICE_NETWORK, "via", node.address, "dev", BRIDGE)


def _exists(interface: str) -> bool:
    return succeeds("ip", "link", "show", "dev", interface)


def _host_filters_bridges() -> bool:
    """Whether bridged traffic passes a firewall of the host that drops what it does not know."""
    if not BRIDGE_CALLS_IPTABLES.is_file() or BRIDGE_CALLS_IPTABLES.read_text().strip() != "1":
        return False
    with contextlib.suppress(ClusterError):
        return "-P FORWARD DROP" in run("iptables", "-S", "FORWARD")
    return False
