"""One command at a time on what all checkouts of the machine share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .console import say


@contextmanager
def exclusive(path: Path, holder: str) -> Iterator[None]:
    """Hold the lock file `path`; wait, and say once for whom, while another process holds it.

    The kernel frees the lock when its holder dies, so that a killed run leaves nothing locked. Children do
    not inherit it: Python opens files close-on-exec.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {holder} to end ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Hold the lock file `path` if nobody else does; whether it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
