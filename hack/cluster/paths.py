"""Where the cluster keeps what it builds (cache), what it runs on (state) and what a checkout sees of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def cache_directory() -> Path:
    """The folder of everything that can be made again: programs, base images."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """The folder of the running cluster. It belongs to the machine's user and not to a checkout."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "cluster"


def _xdg(variable: str, default: str) -> Path:
    # The XDG specification tells programs to ignore a relative path.
    value = Path(os.environ.get(variable, ""))
    return (value if value.is_absolute() else Path.home() / default) / "batchwright"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files that one checkout of the repository gets of the machine's cluster."""

    root: Path = REPOSITORY

    @property
    def folder(self) -> Path:
        """Ignored by git; removed by `make cluster-down`."""
        return self.root / ".cluster"

    @property
    def kubeconfig(self) -> Path:
        """What `export KUBECONFIG=…` and the tests use."""
        return self.folder / "kubeconfig"

    @property
    def programs(self) -> Path:
        """Links to kubectl and ctr, for PATH."""
        return self.folder / "bin"
