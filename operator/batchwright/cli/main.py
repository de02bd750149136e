"""`batchwright`: run a BatchJob on this machine, from the same manifest as on a cluster; the gateway's commands."""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from batchwright.cli.local_run import LocalOptions, run_locally
from batchwright.cli.manifest import ManifestError

EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code: 0 completed, 1 failed, 2 wrong usage, 130 interrupted."""
    options = _parser().parse_args(arguments)
    if options.command == "gateway":
        return _gateway(options.arguments)
    logging.basicConfig(level=options.log_level, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        return run_locally(
            LocalOptions(
                manifest=options.manifest,
                server=options.server,
                endpoint_url=options.endpoint_url,
                api_key_file=options.api_key_file,
                spool=options.spool,
            )
        )
    except ManifestError as error:
        print(f"batchwright: {error}", file=sys.stderr)
        return EXIT_USAGE


def _gateway(arguments: Sequence[str]) -> int:
    """Hand over to `batchwright-gateway`, which a bare install doesn't bring the libraries for."""
    try:
        from batchwright.gateway.main import main as gateway  # noqa: PLC0415

        return gateway(arguments)
    except ModuleNotFoundError as error:
        print(
            f"batchwright: the gateway's commands need {error.name}, which isn't installed:"
            " pip install 'batchwright[gateway]'",
            file=sys.stderr,
        )
        return EXIT_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="batchwright", description="LLM batch inference as a Kubernetes resource.")
    parser.add_argument("--version", action="version", version=f"batchwright {version('batchwright')}")
    parser.add_argument("--log-level", default="WARNING", help="DEBUG, INFO, WARNING (default) or ERROR")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run a BatchJob on this machine, without Kubernetes",
        description="Runs the stages plan, run and merge here. Interrupted by Ctrl-C, the same command goes on"
        " where it stopped. S3 credentials are those of the environment.",
    )
    run.add_argument("manifest", type=Path, help="a BatchJob in YAML; - reads standard input")
    run.add_argument("--server", metavar="URL", help="model server, in place of spec.server")
    run.add_argument("--endpoint-url", metavar="URL", help="S3 endpoint, in place of the manifest's")
    run.add_argument("--api-key-file", type=Path, metavar="FILE", help="file with the model server's API key")
    run.add_argument(
        "--spool", type=Path, metavar="FOLDER", help="folder for finished lines (default: a temporary one)"
    )
    # Its arguments, --help too, are the gateway's own to read: no character begins an option of this parser.
    gateway = commands.add_parser(
        "gateway",
        help="the gateway's commands: serve, keys create, keys revoke, keys list",
        add_help=False,
        prefix_chars="\0",
    )
    gateway.add_argument("arguments", nargs="*")
    return parser


if __name__ == "__main__":
    sys.exit(main())
