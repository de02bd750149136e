"""Bringing the cluster up and down. There is one for the machine, whatever the number of checkouts."""

from __future__ import annotations

import contextlib
import shutil
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import (
    cgroups,
    control_plane,
    host,
    image_builder,
    image_loading,
    mounts,
    network,
    nodes,
    pki,
    processes,
    programs,
)
from .commands import run, succeeds, wait_until
from .console import ClusterError, say
from .images import COREDNS_IMAGE, SYSTEM_IMAGES
from .layout import CLUSTER_DOMAIN, DNS_SERVICE, MAXIMUM_NODES, NODES, Layout, Node
from .locks import exclusive
from .paths import Checkout

LOCK = Path("/run/lock/batchwright-cluster.lock")
COREDNS_MANIFEST = Path(__file__).with_name("coredns.yaml")
LINKED_PROGRAMS = ("kubectl",)


def up(count: int | None, layout: Layout, checkout: Checkout) -> None:
    """Bring the cluster up, or what is missing of it, and write the checkout's kubeconfig.

    Args:
        count: how many nodes there must be at least, 1 to 3. Nodes that are there stay; None asks for one more
            than none, or for those that the cluster has.
        layout: the cluster's folders.
        checkout: gets a kubeconfig and links to the programs.

    Raises:
        ClusterError: the machine lacks something, or a part did not come up in time.
    """
    if count is not None and not 1 <= count <= MAXIMUM_NODES:
        raise ClusterError(f"NODES is a number from 1 to {MAXIMUM_NODES}, not {count}")
    host.require_root()
    host.require_namespaces()
    host.install_node_packages()
    # Before anything runs: a compiler beside a cluster starves it.
    programs.build(programs.ALL)
    archives = image_builder.build(SYSTEM_IMAGES)
    with _locked(layout):
        _check_version(layout)
        _make_folders(layout)
        pki.make(layout)
        network.make_bridge()
        control_plane.start(layout)
        image_loading.keep(layout, archives)
        wanted = {*NODES[: count or 1], *layout.known_nodes()}
        for node in sorted(wanted, key=lambda node: node.number):
            nodes.start(layout, node)
        nodes.route_services(layout)
        _start_dns(layout)
        _wait_until_ready(layout)
        _equip(layout, checkout)


def down(layout: Layout, checkout: Checkout) -> None:
    """Stop the cluster and remove every trace of it, whole or half made.

    Raises:
        ClusterError: something does not go away; the text names it.
    """
    host.require_root()
    with _locked(layout):
        if not processes.kill(layout.state):
            raise ClusterError("some processes of the cluster do not die; a restart of the machine ends them")
        busy = [node.cgroup for node in NODES if not cgroups.remove(node.cgroup, cgroups.hierarchies())]
        if busy:
            raise ClusterError(f"the control group {busy[0]} is still in use")
        network.remove()
        for folder in (layout.state, layout.runtime):
            mounts.unmount_below(folder)
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other things may be in it
            layout.state.parent.rmdir()
    image_builder.sweep()
    shutil.rmtree(checkout.folder, ignore_errors=True)


def kill_node(node: Node, layout: Layout) -> None:
    """Kill a node as a power cut would; its Node object and its pods stay, as they do then."""
    host.require_root()
    with _locked(layout):
        nodes.kill(layout, node)
        nodes.route_services(layout)


def revive_node(node: Node, layout: Layout) -> None:
    """Start a killed node again, with the images and volumes that it had, and wait until it is ready."""
    host.require_root()
    with _locked(layout):
        if node not in layout.known_nodes():
            raise ClusterError(f"there is no {node.name}: 'make cluster-up NODES={node.number}' adds it")
        nodes.start(layout, node)
        nodes.route_services(layout)
        _wait_until_node_ready(layout, node)


def pause_api_server(seconds: float, layout: Layout, *, stop: bool) -> None:
    """Have no API server for a while, as `control_plane` does it: one that hangs, or none at all."""
    host.require_root()
    with _locked(layout):
        away = control_plane.stop_api_server if stop else control_plane.pause_api_server
        away(layout, seconds)


def load_images(archives: dict[str, Path], layout: Layout) -> bool:
    """Bring images into the nodes; False where no cluster is up."""
    if not layout.state.is_dir():
        return False
    with _locked(layout):
        image_loading.keep(layout, archives)
        for node in layout.known_nodes():
            if nodes.running(layout, node):
                image_loading.load_into(layout, node)
    return True


@contextmanager
def _locked(layout: Layout) -> Iterator[None]:
    with exclusive(LOCK, "another command on the cluster"):
        _refuse_foreign(layout)
        yield


def _refuse_foreign(layout: Layout) -> None:
    """Raise ClusterError where a cluster with another state folder, another user's, has the machine's network."""
    for process in processes.find():
        if process.state != layout.state and process.on_our_network:
            if process.state.is_dir():
                raise ClusterError(
                    f"another cluster runs on this machine; its state is in {process.state}: stop it first"
                )
            processes.kill(process.state)  # nobody can stop it any more


def _check_version(layout: Layout) -> None:
    if layout.version.is_file() and layout.version.read_text().strip() != programs.KUBERNETES:
        raise ClusterError(
            f"the cluster was made with Kubernetes {layout.version.read_text().strip()}, this checkout has "
            f"{programs.KUBERNETES}: 'make cluster-down' first"
        )


def _make_folders(layout: Layout) -> None:
    for folder in (layout.state, layout.runtime):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    layout.logs.mkdir(exist_ok=True)
    layout.version.write_text(programs.KUBERNETES + "\n")


def _start_dns(layout: Layout) -> None:
    template = string.Template(COREDNS_MANIFEST.read_text())
    manifest = template.substitute(
        image=COREDNS_IMAGE,
        domain=CLUSTER_DOMAIN,
        address=DNS_SERVICE,
        replicas=min(2, len(layout.known_nodes())),  # with two, names outlive a node
    )
    run(*control_plane.kubectl(layout, "apply", "--server-side", "--force-conflicts", "-f", "-"), stdin=manifest)


def _wait_until_ready(layout: Layout) -> None:
    for node in layout.known_nodes():
        _wait_until_node_ready(layout, node)
    # Until it is there, no pod can be made.
    account = control_plane.kubectl(layout, "get", "serviceaccount", "default", "--namespace", "default")
    wait_until(lambda: succeeds(*account), "the default service account was not made")
    rollout = control_plane.kubectl(
        layout, "rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=1s"
    )
    wait_until(
        lambda: succeeds(*rollout),
        "CoreDNS did not become ready",
        seconds=90,
        remedy="kubectl -n kube-system describe pods",
    )


def _wait_until_node_ready(layout: Layout, node: Node) -> None:
    """Wait for kubelet itself, then for the condition: of a node that was killed it is true for some seconds more."""
    remedy = f"see {layout.logs}/{node.name}-kubelet.log"
    healthz = control_plane.kubectl(layout, "get", "--raw", f"/api/v1/nodes/{node.name}/proxy/healthz")
    wait_until(lambda: succeeds(*healthz), f"kubelet of {node.name} did not answer", seconds=90, remedy=remedy)
    ready = control_plane.kubectl(layout, "wait", "--for=condition=Ready", f"node/{node.name}", "--timeout=1s")
    wait_until(lambda: succeeds(*ready), f"{node.name} did not become ready", seconds=90, remedy=remedy)


def _equip(layout: Layout, checkout: Checkout) -> None:
    checkout.programs.mkdir(parents=True, exist_ok=True)
    pki.write_private(checkout.kubeconfig, layout.kubeconfig("admin").read_text())
    for name in LINKED_PROGRAMS:
        link = checkout.programs / name
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(control_plane.PROGRAMS[name].path)
    say(f"the cluster is up: export KUBECONFIG={checkout.kubeconfig}")
