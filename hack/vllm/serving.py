"""A vLLM server on this machine for as long as a block runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .installation import Installation

# `vllm serve` preloads a library that needs AVX-512, and dies of an illegal instruction where there is none.
MODULE = "vllm.entrypoints.openai.api_server"
HOST = "127.0.0.1"
START_SECONDS = 300
STOP_SECONDS = 30
TAIL_LINES = 20
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    # vLLM would tie itself to the first core, as every other server on this machine would.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


class ServerFailedError(Exception):
    """A server ended, or did not answer in time; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A server that answers."""

    url: str
    """Without a path: http://127.0.0.1:PORT."""
    model: str
    """The name that requests use."""
    pid: int
    """Its first process, which leads the process group of all of them."""
    log: Path


def command(
    installation: Installation,
    *flags: str,
    model: str = "tiny",
    served_name: str = "",
    port: int,
    module: str = MODULE,
) -> list[str]:
    """What starts a server on the loopback address, or another program of vLLM's that takes the same flags.

    Args:
        installation: whose vLLM and models.
        flags: more flags of the program.
        model: the model's name in the installation.
        served_name: the name that requests use, the model's own if empty.
        port: where it listens.
        module: the program's.
    """
    named = ("--model", str(installation.model(model)), "--served-model-name", served_name or model)
    # Without --enforce-eager it would compile for minutes.
    return [
        *(str(installation.python), "-m", module, *named, "--host", HOST, "--port", str(port), "--enforce-eager"),
        *flags,
    ]


def lora_flags(installation: Installation) -> tuple[str, ...]:
    """The flags that serve the adapter tiny-lora beside tiny."""
    return ("--enable-lora", "--lora-modules", f"tiny-lora={installation.model('tiny-lora')}")


@contextmanager
def vllm_server(
    installation: Installation,
    *flags: str,
    model: str = "tiny",
    served_name: str = "",
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[VllmServer]:
    """A server that answers; it and all its children are gone when the block ends.

    Args:
        installation: whose vLLM and models.
        flags: more flags of vLLM's server.
        model: the model's name in the installation.
        served_name: the name that requests use, the model's own if empty.
        port: where it listens; 0 takes a free one.
        environment: more environment variables, or others than `ENVIRONMENT` has.
        log: gets what it prints; a temporary file without it, which stays if the server fails.

    Raises:
        ServerFailedError: it ended before it answered, or did not answer within `START_SECONDS`.
    """
    port = port or _free_port()
    log = log or _temporary_log(model)
    started = command(installation, *flags, model=model, served_name=served_name, port=port)
    with running(started, log, environment) as process:
        server = VllmServer(f"http://{HOST}:{port}", served_name or model, process.pid, log)
        _wait_until_it_answers(server, process)
        yield server


@contextmanager
def running(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of vLLM's, which may be at its start still; it and all its children are gone when the block ends.

    Args:
        arguments: of `command`, or such; paths in them are absolute, since it runs in the root folder.
        log: gets what it prints.
        environment: more environment variables, or others than `ENVIRONMENT` has.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments,
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes], *, seconds: float = STOP_SECONDS) -> None:
    """End a process and its process group, which it leads: SIGTERM, and SIGKILL after so many seconds."""
    _signal_group(process.pid, signal.SIGTERM)
    end = time.monotonic() + seconds
    # The first process may go before the others, so it is the group that is looked at.
    while _group_lives(process) and time.monotonic() < end:
        time.sleep(0.05)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)


def _wait_until_it_answers(server: VllmServer, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while not _healthy(server.url):
        if process.poll() is not None:
            raise ServerFailedError(f"vLLM ended with code {process.returncode} at its start:\n{_tail(server.log)}")
        if time.monotonic() > end:
            raise ServerFailedError(f"vLLM did not answer within {START_SECONDS} seconds:\n{_tail(server.log)}")
        time.sleep(0.2)


def _healthy(url: str) -> bool:
    # Not the default opener: that one would ask a proxy of the surroundings for the loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(urllib.error.URLError, OSError), opener.open(f"{url}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # or its own remains would count as the group
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _temporary_log(model: str) -> Path:
    handle, name = tempfile.mkstemp(prefix=f"vllm-{model}-", suffix=".log")
    os.close(handle)
    return Path(name)


def _tail(log: Path) -> str:
    """The end of a log, after the first errors in it: vLLM's processes report one another's ends at length."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines[:-TAIL_LINES] if re.search(r"\w+Error: ", line)]
    return "\n".join([*errors[:3], *lines[-TAIL_LINES:]])
