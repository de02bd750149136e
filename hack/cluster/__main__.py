"""The commands behind the Makefile's targets: python3 -m hack.cluster COMMAND."""

from __future__ import annotations

import argparse
import os
import sys

from . import image_builder, kind, machine_cluster, programs
from .console import ClusterError, say
from .images import PROJECT_IMAGES
from .layout import NODES, Layout, Node
from .paths import REPOSITORY, Checkout


def main(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(options: argparse.Namespace) -> None:
    layout, checkout = Layout(), Checkout()
    match options.command:
        case "up" if kind.exists():
            kind.up(REPOSITORY / "kind-config.yaml", checkout)
        case "up":
            machine_cluster.up(options.nodes, layout, checkout)
        case "down":
            _down(layout, checkout)
        case "kind-up":
            kind.up(REPOSITORY / "kind-config.yaml", checkout)
        case "images":
            _images(layout)
        case "build":
            programs.build(programs.ALL)
        case "kill-node":
            machine_cluster.kill_node(options.node, layout)
        case "revive-node":
            machine_cluster.revive_node(options.node, layout)


def _down(layout: Layout, checkout: Checkout) -> None:
    kind.down(checkout)
    # Without root there can be no other cluster of ours, unless its state says so.
    if os.geteuid() == 0 or layout.state.is_dir():
        machine_cluster.down(layout, checkout)


def _images(layout: Layout) -> None:
    if kind.exists():
        kind.load(image_builder.build_with_docker(PROJECT_IMAGES))
        return
    archives = image_builder.build(PROJECT_IMAGES)
    if not machine_cluster.load_images(archives, layout):
        say("no cluster is up: the images are kept until 'make cluster-up' and 'make images' bring them into one")


def _node(text: str) -> Node:
    number = text.removeprefix("node-")
    try:
        return NODES[int(number) - 1] if int(number) > 0 else NODES[len(NODES)]
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(f"no node is called {text!r}: they are 1 to {len(NODES)}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m hack.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="bring the cluster up, or what is missing of it")
    up.add_argument("--nodes", type=int, help="at least this many nodes, 1 to 3")
    commands.add_parser("down", help="stop the cluster and remove every trace of it")
    commands.add_parser("kind-up", help="bring a cluster up with Docker and kind")
    commands.add_parser("images", help="build the project's images and bring them into the cluster")
    commands.add_parser("build", help="compile all programs into the cache")
    for name, text in (("kill-node", "kill a node as a power cut would"), ("revive-node", "start it again")):
        commands.add_parser(name, help=text).add_argument("node", type=_node)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
