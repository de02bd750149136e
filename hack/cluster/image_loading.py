"""Bringing images into the nodes. There is no registry: what a node lacks it never gets otherwise."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

from .commands import run
from .console import ClusterError, say
from .layout import Layout, Node

IMPORT_SECONDS = 300


def keep(layout: Layout, archives: dict[str, Path]) -> None:
    """Keep images for the nodes, those that run and those that come later.

    Args:
        layout: the cluster.
        archives: OCI archives by reference.
    """
    layout.images.mkdir(parents=True, exist_ok=True)
    for archive in archives.values():
        _remember(layout, archive)


def load_into(layout: Layout, node: Node) -> None:
    """Bring every image of the cluster into `node` that it lacks, or has with other content."""
    present = parse_list(_ctr(layout, node, "list"))
    for archive in sorted(layout.images.glob("*.tar")):
        reference, digest = identity(archive)
        if present.get(reference) != digest:
            say(f"loading {reference} into {node.name} ...")
            _ctr(layout, node, "import", str(archive))


def identity(archive: Path) -> tuple[str, str]:
    """The reference and the manifest's digest of the one image in an OCI archive."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        if member is None:
            raise ClusterError(f"{archive} is no OCI archive")
        manifest = json.load(member)["manifests"][0]
    return manifest["annotations"]["org.opencontainers.image.ref.name"], manifest["digest"]


def parse_list(table: str) -> dict[str, str]:
    """References and digests in what `ctr images list` prints: reference, type, digest and more, in columns."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {row[0]: row[2] for row in rows if len(row) > 2}


def _remember(layout: Layout, archive: Path) -> None:
    # A name for each image, not for its content: the newest replaces the older.
    target = layout.images / f"{archive.parent.name}.tar"
    if target.is_file() and target.samefile(archive):
        return
    unfinished = target.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(archive, unfinished)
    except OSError:  # another file system
        shutil.copyfile(archive, unfinished)
    unfinished.replace(target)


def _ctr(layout: Layout, node: Node, command: str, *arguments: str) -> str:
    address = ("--address", str(layout.containerd_socket(node)), "--namespace", "k8s.io")
    return run("ctr", *address, "images", command, *arguments, timeout=IMPORT_SECONDS)
