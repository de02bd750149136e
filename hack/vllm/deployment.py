"""vLLM in the local cluster: its image, the installation on the nodes, and manifests/vllm-cpu."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hack.cluster import control_plane, image_builder, kind, machine_cluster
from hack.cluster.commands import run, succeeds, wait_until
from hack.cluster.console import ClusterError, say
from hack.cluster.images import REGISTRY, Image
from hack.cluster.layout import Layout
from hack.cluster.paths import REPOSITORY

from .installation import Installation

IMAGE = Image(f"{REGISTRY}/vllm:dev", "hack/vllm/Dockerfile")
# The Python of the image, whose packages these must be.
IMAGE_PYTHON = (3, 11)
MANIFESTS = REPOSITORY / "manifests" / "vllm-cpu"
NAMESPACE = "batchwright-vllm"
DEPLOYMENTS = ("vllm", "vllm-embedding")
MADE_OF = "batchwright.dev/made-of"
ROLLOUT_SECONDS = 1200


def up(installation: Installation, layout: Layout) -> None:
    """Run vLLM in the local cluster, or what is missing of it, and wait until it answers.

    Raises:
        ClusterError: there is no such cluster, or the pods don't become ready.
    """
    _require(layout)
    archives = image_builder.build([IMAGE])
    if not machine_cluster.load_images(archives, layout):
        raise ClusterError("no cluster is up: make cluster-up")
    put_links(node_links(installation), _node_folder(layout))
    with tempfile.TemporaryDirectory(prefix="batchwright-vllm-") as name:
        folder = Path(name).resolve()
        made_of = digest(str(installation.folder), *map(str, archives.values()))
        (folder / "kustomization.yaml").write_text(json.dumps(overlay(made_of, folder)))
        _kubectl(layout, "apply", "--server-side", "--force-conflicts", "-k", str(folder))
    say("waiting for vLLM to load (a minute or so) ...")
    for name in DEPLOYMENTS:
        _wait(layout, name)
    say(
        f"http://vllm.{NAMESPACE}:8000 serves tiny and tiny-lora, http://vllm-embedding.{NAMESPACE}:8000 tiny-embedding"
    )


def down(layout: Layout) -> None:
    """Remove vLLM from the local cluster; the installation stays."""
    if layout.state.is_dir():
        options = ("--ignore-not-found", "--wait", "--request-timeout=0")
        _kubectl(layout, "delete", "namespace", NAMESPACE, *options, seconds=320)
    shutil.rmtree(_node_folder(layout), ignore_errors=True)


def node_links(installation: Installation) -> dict[str, Path]:
    """The names below the nodes' fixed folder, and what is mounted under them."""
    return {"packages": installation.site_packages, "models": installation.models}


def put_links(links: Mapping[str, Path], folder: Path) -> None:
    """Make the links below `folder`. The nodes see this machine's files, and a mount follows a link."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        unfinished = folder / f".{name}"
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(target)
        unfinished.replace(folder / name)


def overlay(made_of: str, folder: Path) -> dict[str, object]:
    """A kustomization in `folder` of the manifests, with what the pods are made of written at them.

    Neither another installation nor another image under the same tag changes the manifests themselves: this does, and
    restarts the pods.
    """
    annotate = {"op": "add", "path": "/spec/template/metadata/annotations", "value": {MADE_OF: made_of}}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder)],
        "patches": [{"target": {"kind": "Deployment"}, "patch": json.dumps([annotate])}],
    }


def digest(*parts: str) -> str:
    """Changes when one of `parts` does."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _require(layout: Layout) -> None:
    if kind.exists():
        raise ClusterError(
            "vLLM runs in the cluster of 'make cluster-up' only: nodes of kind don't see the installation"
        )
    if not layout.state.is_dir():
        raise ClusterError("no cluster is up: make cluster-up")
    if sys.version_info[:2] != IMAGE_PYTHON:
        needed = ".".join(map(str, IMAGE_PYTHON))
        raise ClusterError(
            f"the image has Python {needed}, and vLLM is installed for another: make PYTHON=python{needed}"
        )


def _node_folder(layout: Layout) -> Path:
    """Where every node finds the installation, under a path that manifests can name. It goes with the cluster."""
    return layout.runtime / "vllm"


def _wait(layout: Layout, name: str) -> None:
    rollout = ("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=1s")
    wait_until(
        lambda: succeeds(*control_plane.kubectl(layout, *rollout)),
        f"vLLM's deployment {name} did not become ready",
        seconds=ROLLOUT_SECONDS,
        remedy=f"kubectl -n {NAMESPACE} describe pods; kubectl -n {NAMESPACE} logs deployment/{name}",
    )


def _kubectl(layout: Layout, *arguments: str, seconds: float = 60) -> str:
    return run(*control_plane.kubectl(layout, *arguments), timeout=seconds)
