"""Running other programs, and waiting for what they bring about; both always bounded in time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from .console import ClusterError


def run(
    *command: str | Path, timeout: float = 60, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> str:
    """The standard output of a command.

    Args:
        command: the program and its arguments.
        timeout: seconds after which the command is killed.
        environment: replaces the caller's environment.
        stdin: what the command reads.

    Raises:
        ClusterError: the command ended with an error (the text ends with what it printed last), or took too long.
    """
    arguments = [str(part) for part in command]
    shown = " ".join(arguments[:4])
    try:
        done = subprocess.run(
            arguments, input=stdin, env=environment, timeout=timeout, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ClusterError(f"{arguments[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"'{shown} ...' took longer than {timeout:g} seconds") from None
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise ClusterError(f"'{shown} ...' failed: {last}")
    return done.stdout


def succeeds(*command: str | Path, timeout: float = 10) -> bool:
    """Whether a command ends without an error in time."""
    try:
        run(*command, timeout=timeout)
    except ClusterError:
        return False
    return True


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 60, remedy: str = "") -> None:
    """Ask `condition` a few times a second until it holds.

    Raises:
        ClusterError: it did not hold within `seconds`; the text names `what` and the `remedy`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"{what} within {seconds:g} seconds{': ' + remedy if remedy else ''}")
        time.sleep(0.2)
