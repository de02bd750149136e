"""The command line: `python -m stub --port 8000`."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stub.errors import SwitchError
from stub.server import Config, StubServer
from stub.settings import Settings

ENVIRONMENT = "STUB_"


def parse_arguments(arguments: Sequence[str], environment: dict[str, str]) -> Config:
    """Read flags and, for those that are not given, variables: --control-port is STUB_CONTROL_PORT.

    Raises SwitchError for a switch that does not parse; ends the program for an unknown flag.
    """
    options = vars(_parser(environment).parse_args(arguments))
    changes = _object(options.pop("switches"))
    for name in ("delay", "requests", "slots", "queue"):
        if options[name] is not None:
            changes[name] = options[name]
        del options[name]
    if models := options.pop("served_model_name"):
        changes["models"] = models
    # A key on the command line would show in the list of processes.
    if keys := environment.get(f"{ENVIRONMENT}API_KEY"):
        changes["api_keys"] = keys.split(",")
    return Config(settings=Settings().merged(changes), **options)


def _parser(environment: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stub",
        description="An OpenAI-compatible model server that fails on command. Every flag can be set as STUB_FLAG.",
    )

    def add(flag: str, default: Any, help_text: str, kind: Any = str) -> None:
        name = ENVIRONMENT + flag.lstrip("-").replace("-", "_").upper()
        # argparse converts a default that is a text as if it had been given.
        parser.add_argument(flag, type=kind, default=environment.get(name, default), help=help_text)

    add("--host", "127.0.0.1", "address to listen on")
    add("--port", 8000, "main port; 0: a free one", int)
    add("--control-port", 8001, "port of /stub alone, open while the main one refuses; 0: a free one", int)
    add("--served-model-name", None, "comma-separated names of the model", _names)
    add("--delay", None, "seconds an answer takes: 0.05, 0.05-0.5 or pareto:SCALE:SHAPE")
    add("--requests", None, "switches of every request that brings none, e.g. status=503,times=1")
    add("--slots", None, "requests worked on at once", int)
    add("--queue", None, "requests that may wait for a slot", int)
    add("--switches", "{}", "JSON object of any settings of /stub/switches")
    add("--shutdown-timeout", 0.0, "seconds for requests in flight after SIGTERM, before they are aborted", float)
    add("--tls-cert", None, "certificate chain; the main port then speaks HTTPS")
    add("--tls-key", None, "its key")
    add("--log-keys", 200_000, "requests of which arrivals are counted", int)
    add("--log-last", 10_000, "latest arrivals that are kept", int)
    add("--journal", None, "file with arrivals and answers, so that a server started again goes on counting", Path)
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SwitchError(f"--switches is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise SwitchError("--switches is not a JSON object")
    return value


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. The first line on standard output is a JSON object with both URLs."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = StubServer(config)
    await server.start()
    print(json.dumps({"url": server.url, "control_url": server.control_url}), flush=True)
    await ended.wait()
    await server.shut_down()


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        config = parse_arguments(sys.argv[1:] if arguments is None else arguments, dict(os.environ))
    except SwitchError as error:
        print(f"stub: {error}", file=sys.stderr)
        return 2
    try:
        _run(config)
    except OSError as error:
        print(f"stub: {error}", file=sys.stderr)
        return 1
    return 0


def _run(config: Config) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(config))
    else:
        uvloop.run(serve(config))
