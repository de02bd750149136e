"""Names, addresses and folders of the cluster. Values only: nothing here touches the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .paths import state_directory

MAXIMUM_NODES = 3

BRIDGE = "batchwright0"
# 198.18.0.0/15 is set aside for tests between network devices (RFC 2544), so that no real network uses it.
HOST_ADDRESS = "198.18.0.1"
NETWORK_PREFIX = 24
API_PORT = 6443
API_SERVER = f"https://{HOST_ADDRESS}:{API_PORT}"

POD_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: a set of namespaces with a kubelet, a container runtime and a service proxy of its own."""

    number: int

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """The node's address on the bridge."""
        return f"198.18.0.{10 + self.number}"

    @property
    def pod_network(self) -> str:
        """The addresses of the node's pods; the host and the other nodes have a route to it."""
        return f"10.88.{self.number}.0/24"

    @property
    def host_interface(self) -> str:
        """The host's end of the node's network cable."""
        return f"batchwright{self.number}"

    @property
    def cgroup(self) -> str:
        """The node's control group, below the root of every hierarchy."""
        return f"batchwright-{self.name}"


NODES = tuple(Node(number) for number in range(1, MAXIMUM_NODES + 1))


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a cluster: what outlives a restart (`state`) and what does not (`runtime`)."""

    state: Path = field(default_factory=state_directory)
    # Unix sockets lie here, since their paths may have at most 107 bytes.
    runtime: Path = Path("/run/batchwright")

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """One log file for each process."""
        return self.state / "log"

    @property
    def images(self) -> Path:
        """The archives of the images that every node gets."""
        return self.state / "images"

    @property
    def version(self) -> Path:
        """Names the version of Kubernetes that the cluster was made with."""
        return self.state / "kubernetes-version"

    @property
    def etcd_socket(self) -> Path:
        """Only root may enter the folder, so that the store needs no port and no password."""
        return self.runtime / "etcd.sock"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a component, or of `admin`."""
        return self.state / "kubeconfig" / user

    def node(self, node: Node) -> Path:
        """A node's configuration, images and volumes."""
        return self.state / node.name

    def containerd_socket(self, node: Node) -> Path:
        """Where a node's container runtime listens."""
        return self.runtime / node.name / "containerd.sock"

    def known_nodes(self) -> tuple[Node, ...]:
        """The nodes that the cluster was made with, running or not."""
        return tuple(node for node in NODES if self.node(node).is_dir())
