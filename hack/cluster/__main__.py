"""The commands behind the Makefile's targets, and what tests do to a cluster: python3 -m hack.cluster COMMAND.

For instance `pause-api-server --seconds 20`: calls of the API server hang for so long. With `--stop` it is killed
instead, and started again afterwards: connections are refused. Both return once it answers.
"""

from __future__ import annotations

import argparse
import os
import sys

from . import host, image_builder, kind, machine_cluster, programs
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
        case "browser":
            host.install_browser_packages()
        case "build":
            programs.build(programs.ALL)
        case "kill-node":
            machine_cluster.kill_node(options.node, layout)
        case "revive-node":
            machine_cluster.revive_node(options.node, layout)
        case "pause-api-server":
            machine_cluster.pause_api_server(options.seconds, layout, stop=options.stop)


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


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 600:
        raise argparse.ArgumentTypeError("seconds are a number from 0 to 600")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m hack.cluster", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="bring the cluster up, or what is missing of it")
    up.add_argument("--nodes", type=int, help="at least this many nodes, 1 to 3")
    commands.add_parser("down", help="stop the cluster and remove every trace of it")
    commands.add_parser("kind-up", help="bring a cluster up with Docker and kind")
    commands.add_parser("images", help="build the project's images and bring them into the cluster")
    commands.add_parser("browser", help="install the browser that tests of the gateway's page look at it with")
    commands.add_parser("build", help="compile all programs into the cache")
    for name, text in (("kill-node", "kill a node as a power cut would"), ("revive-node", "start it again")):
        commands.add_parser(name, help=text).add_argument("node", type=_node)
    pause = commands.add_parser("pause-api-server", help="let the API server hang for a while")
    pause.add_argument("--seconds", type=_seconds, default=20.0, help="for how long, at most 600 (default: 20)")
    pause.add_argument("--stop", action="store_true", help="kill it, and start it again after that time")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
