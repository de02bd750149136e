"""Where the process begins, with a handler for SIGTERM before what the stages need is imported, which takes a second.

It is the first process of its container, and the kernel keeps a signal from a first process without a handler for it.
"""

import os
import signal
from types import FrameType

_INTERRUPTED = 10
"""ExitCode.INTERRUPTED, whose module would be imported too late."""


def main() -> int:
    """Run a stage; the exit code is one of ExitCode."""
    signal.signal(signal.SIGTERM, _leave)
    from batchwright.worker.main import main as run_stage  # noqa: PLC0415 (it must come after the handler)

    return run_stage()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # Nothing has begun. An exception in the middle of an import would come out as an error of that import.
    os._exit(_INTERRUPTED)
