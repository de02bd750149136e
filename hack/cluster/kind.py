"""A cluster of Docker containers with kind, where both are installed."""

from __future__ import annotations

import shutil
from pathlib import Path

from .commands import run, succeeds
from .console import ClusterError, say
from .paths import Checkout

CLUSTER = "batchwright"
UP_SECONDS = 900


def require() -> None:
    """Raise ClusterError, with one line that says so, where Docker or kind is missing."""
    for command in ("docker", "kind", "kubectl"):
        if shutil.which(command) is None:
            raise ClusterError(
                f"{command} is missing: 'make kind-up' needs Docker, kind and kubectl; 'make cluster-up' does not"
            )
    if not succeeds("docker", "info", timeout=30):
        raise ClusterError("the Docker engine does not answer: start it, or use 'make cluster-up', which needs none")


def exists() -> bool:
    """Whether kind and its cluster are there."""
    if shutil.which("docker") is None or shutil.which("kind") is None:
        return False
    try:
        return CLUSTER in run("kind", "get", "clusters", timeout=30).split()
    except ClusterError:
        return False


def up(configuration: Path, checkout: Checkout) -> None:
    """Make the cluster unless it is there, and write the checkout's kubeconfig."""
    require()
    checkout.folder.mkdir(exist_ok=True)
    kubeconfig = ("--kubeconfig", str(checkout.kubeconfig))
    if exists():
        run("kind", "export", "kubeconfig", "--name", CLUSTER, *kubeconfig)
    else:
        say("making a cluster with kind (the first time it is downloaded) ...")
        options = ("--name", CLUSTER, "--config", configuration, "--wait", "5m")
        run("kind", "create", "cluster", *options, *kubeconfig, timeout=UP_SECONDS)
    say(f"the cluster is up: export KUBECONFIG={checkout.kubeconfig}")


def down(checkout: Checkout) -> None:
    """Delete the cluster if it is there, and the checkout's kubeconfig."""
    if exists():
        run("kind", "delete", "cluster", "--name", CLUSTER, timeout=300)
        shutil.rmtree(checkout.folder, ignore_errors=True)


def load(references: list[str]) -> None:
    """Bring images of this machine's Docker into the cluster's nodes."""
    for reference in references:
        say(f"loading {reference} into kind ...")
        run("kind", "load", "docker-image", reference, "--name", CLUSTER, timeout=600)
