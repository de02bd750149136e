"""vLLM's own batch runner (`run-batch`) on an input: an engine without HTTP, which it starts and ends itself."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from engine_watch import watched
from servers.process import free_port
from servers.vllm import installation

PROGRAM = "vllm.entrypoints.openai.run_batch"
READING = b"Reading batch from"
"""Its log says so once its engine stands, before it reads its input."""
LOAD_SECONDS, RUN_SECONDS = 300.0, 1200.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunnerRan:
    """A run of so many requests."""

    seconds: float
    """From before it reads its input until the last line of its output is written; loading the model is not in it."""
    running: float
    """Requests in its engine, in the mean of that time. Its counts of answers come late, in a burst at the end."""


def run_batch(source: Path, lines: int, flags: Sequence[str]) -> RunnerRan:
    """Run an input of so many lines.

    Raises:
        RuntimeError: it failed, or not every request has an answer.
    """
    from hack.vllm import serving

    with tempfile.TemporaryDirectory(prefix="bench-runner-") as name:
        folder, port = Path(name), free_port()
        output, log = folder / "output.jsonl", folder / "log"
        files = ("--input-file", str(source), "--output-file", str(output))
        command = serving.command(installation(), *files, "--enable-metrics", *flags, port=port, module=PROGRAM)
        with serving.running(command, log) as process:
            _wait(process, log, LOAD_SECONDS, lambda: READING in log.read_bytes())
            with watched(f"http://127.0.0.1:{port}") as watch:
                started = time.perf_counter()
                _wait(process, log, RUN_SECONDS, lambda: output.exists() and output.read_bytes().count(b"\n") == lines)
                seconds = time.perf_counter() - started
        if refused := output.read_bytes().count(b'"status_code":400'):
            raise RuntimeError(f"{refused} of {lines} requests were refused")
    return RunnerRan(seconds, fmean(watch.running))


def _wait(process: subprocess.Popen[bytes], log: Path, seconds: float, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"run-batch did not get on:\n{log.read_text()[-2000:]}")
        time.sleep(POLL_SECONDS)
