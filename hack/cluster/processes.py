"""The cluster's processes.

Each carries two environment variables, the cluster's state folder and its role, and every child inherits them.
So the machine's process table says what runs, also after a run that was killed before it could write it down, and
no file can name a process that is gone, or another one under the same number.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STATE_VARIABLE = "BATCHWRIGHT_CLUSTER_STATE"
ROLE_VARIABLE = "BATCHWRIGHT_CLUSTER_ROLE"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a cluster. Its `role` names a component of the control plane, or a node."""

    pid: int
    state: Path
    role: str
    leads_session: bool
    pid_in_namespace: int
    on_our_network: bool
    """Whether it is in our network namespace. A node never is, nor is a cluster in a container on this machine."""


def find(proc: Path = Path("/proc")) -> list[Process]:
    """All live processes of all clusters on this machine."""
    return list(_find(proc))


def _find(proc: Path) -> Iterator[Process]:
    own_network = (proc / "self" / "ns" / "net").readlink()
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it may end at any moment
            environment = _parse_environment((folder / "environ").read_bytes())
            if STATE_VARIABLE in environment and ROLE_VARIABLE in environment:
                status = _parse_status((folder / "status").read_text())
                yield Process(
                    pid=int(folder.name),
                    state=Path(environment[STATE_VARIABLE]),
                    role=environment[ROLE_VARIABLE],
                    leads_session=status["NSsid"].split()[0] == folder.name,
                    pid_in_namespace=int(status["NSpid"].split()[-1]),
                    on_our_network=(folder / "ns" / "net").readlink() == own_network,
                )


def _parse_environment(block: bytes) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in block.decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}


def _parse_status(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def main_process(processes: Iterable[Process], state: Path, role: str) -> Process | None:
    """The process that was started for a role; its children are not meant."""
    return next((p for p in processes if p.state == state and p.role == role and p.leads_session), None)


def first_process(processes: Iterable[Process], state: Path, role: str) -> Process | None:
    """Process number 1 of a node's own process namespace, with which the whole node dies."""
    return next(
        (p for p in processes if p.state == state and p.role == role and p.pid_in_namespace == 1 and p.pid != 1), None
    )


def start(role: str, command: Sequence[str], *, state: Path, log: Path) -> None:
    """Start a process that outlives this one, in a session of its own.

    It gets a clean environment: proxy settings and the like of the caller's shell would break the cluster.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": SYSTEM_PATH,
        "HOME": str(Path.home()),
        STATE_VARIABLE: str(state),
        ROLE_VARIABLE: role,
    }
    with log.open("ab") as output:
        subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill(state: Path, role: str | None = None, *, seconds: float = 30) -> bool:
    """SIGKILL all processes of a cluster, or those of one role, until none is left; False if some do not die."""
    end = time.monotonic() + seconds
    while True:
        left = [p for p in find() if p.state == state and role in (None, p.role)]
        if not left:
            return True
        if time.monotonic() > end:
            return False
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)
