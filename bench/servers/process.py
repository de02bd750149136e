"""Starting a server, waiting until it answers, and ending it again."""

import http.client
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

START_SECONDS = 20.0


def pinned(command: list[str], core: int | None) -> list[str]:
    """Put a command on one core, where the machine can do that."""
    taskset = shutil.which("taskset")
    return command if core is None or taskset is None else [taskset, "-c", str(core), *command]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def running(
    command: list[str], port: int, core: int | None, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server until the block ends; gives its base URL.

    Raises:
        RuntimeError: it ended, or didn't answer within START_SECONDS; with what it said.
    """
    with tempfile.TemporaryFile("w+") as output:  # a pipe that nobody reads would stop the server
        process = subprocess.Popen(pinned(command, core), stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            if not _answers(process, port):
                output.seek(0)
                raise RuntimeError(f"{' '.join(command)} did not start:\n{output.read()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.05)
        else:
            return True
        finally:
            connection.close()
    return False
