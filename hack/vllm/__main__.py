"""The commands behind the Makefile's targets: python3 -m hack.vllm COMMAND."""

from __future__ import annotations

import argparse
import os
import sys

from hack.cluster.console import ClusterError, say
from hack.cluster.layout import Layout

from . import deployment, environment, serving
from .installation import Installation, find_installation, wanted_installation


def main(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    parser = _parser()
    options, flags = parser.parse_known_args(arguments)
    if flags and options.command != "serve":
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    try:
        return _run(options, flags)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace, flags: list[str]) -> int:
    match options.command:
        case "install":
            print(environment.install().folder)
        case "installed":
            print(wanted_installation().folder)
            return 0 if find_installation() else 1
        case "serve":
            _serve(options.model, options.port, flags)
        case "up":
            deployment.up(_installed(), Layout())
        case "down":
            deployment.down(Layout())
    return 0


def _installed() -> Installation:
    installation = find_installation()
    if installation is None:
        raise ClusterError("vLLM is not installed: make vllm")
    return installation


def _serve(model: str, port: int, flags: list[str]) -> None:
    """Become the server, so that signals reach it."""
    installation = _installed()
    adapter = serving.lora_flags(installation) if model == "tiny" else ()
    command = serving.command(installation, *adapter, *flags, model=model, port=port)
    os.execve(command[0], command, {**serving.ENVIRONMENT, **os.environ})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m hack.vllm", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("install", help="install vLLM and make the tiny models, where they are missing")
    commands.add_parser("installed", help="whether that is done, as the exit code; prints the folder")
    commands.add_parser("up", help="run vLLM in the local cluster")
    commands.add_parser("down", help="remove it from there")
    serve = commands.add_parser("serve", help="serve a model on this machine until Ctrl-C; other flags go to vLLM")
    serve.add_argument("model", nargs="?", default="tiny", choices=("tiny", "tiny-embedding"))
    serve.add_argument("--port", type=int, default=8100, help="where it listens on the loopback address (8100)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
