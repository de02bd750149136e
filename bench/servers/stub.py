"""The stub model server of the tests (tests/stub): slower than nginx, and as strict as a real server."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import free_port, running

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def stub(*, core: int | None, control_port: int = 0) -> Iterator[str]:
    """Run the stub with its usual 50 ms until the block ends; gives its base URL. Control port 0 takes a free one."""
    port = free_port()
    command = [sys.executable, "-m", "stub", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--control-port", str(control_port), "--served-model-name", "bench"]
    with running(command, port, core, {**os.environ, "PYTHONPATH": str(ROOT / "tests")}) as url:
        yield url
