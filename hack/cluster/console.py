"""What the cluster's commands say to the person who runs them."""

from __future__ import annotations

import sys


class ClusterError(Exception):
    """A command cannot do what it was asked; the text says why, and what to do, in a line."""


def say(message: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(message, file=sys.stderr, flush=True)
