"""A real vLLM on the CPU with a tiny random model, as `make vllm` installs it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if TYPE_CHECKING:
    from hack.vllm.installation import Installation

MODEL = "tiny"
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "256")


@dataclass(frozen=True, slots=True)
class Vllm:
    """A running server."""

    url: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """User and system time of all its processes by now."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(times.user + times.system for times in (one.cpu_times() for one in family))


def installation() -> "Installation":
    """Give the installed vLLM, or end the bench and say how it is installed."""
    from hack.vllm.installation import find_installation

    found = find_installation()
    if found is None:
        raise SystemExit("This bench needs a real vLLM, which is not installed: make vllm")
    return found


@contextmanager
def vllm(*flags: str) -> Iterator[Vllm]:
    """Run the server with these flags until the block ends; it has loaded its model."""
    from hack.vllm.serving import vllm_server

    with vllm_server(installation(), *flags, model=MODEL, served_name=MODEL) as server:
        yield Vllm(server.url, psutil.Process(server.pid))


@contextmanager
def vllm_or(url: str | None, *flags: str) -> Iterator[str]:
    """Give the URL of a server that runs already, or else run one with these flags."""
    if url is not None:
        yield url.rstrip("/")
        return
    with vllm(*flags) as server:
        yield server.url
