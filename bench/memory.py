"""Memory of a worker by the number of lines: does it grow with the input?

Each size is planned and run by processes of their own, as in pods, against nginx, which answers at once. What the
system counts as the largest resident size of the stage in question is printed. See bench/README.md.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from load import make_body, make_line
from servers.nginx import INSTALL, missing, nginx

WORKER = str(Path(sys.executable).parent / "batchwright-worker")
LINES_AT_ONCE = 10_000
POLL_SECONDS = 0.1
SERVER_CORE = 1
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Measured:
    lines: int
    peak_bytes: int
    seconds: float


def write_input(path: Path, lines: int, body: Callable[[int], bytes]) -> None:
    with path.open("wb") as file:
        for first in range(0, lines, LINES_AT_ONCE):
            numbers = range(first, min(first + LINES_AT_ONCE, lines))
            file.write(b"".join(make_line(number, body(number)) for number in numbers))


def short_body(number: int) -> bytes:
    """What a plan keeps in memory depends on the number of lines alone, and short ones are read sooner."""
    return b'{"model":"bench","messages":[]}'


def write_job(folder: Path, url: str, concurrency: int) -> Path:
    (folder / "output").mkdir()
    spec = {
        "input": {"uri": (folder / "input.jsonl").as_uri()},
        "output": {"uri": f"{(folder / 'output').as_uri()}/"},
        "requests": {"maxConcurrency": concurrency},
    }
    path = folder / "job.json"
    path.write_text(json.dumps({"batchjob": {"metadata": {"name": "bench"}, "spec": spec}, "serverUrl": url}))
    return path


def run_stage(folder: Path, job: Path, *arguments: str) -> tuple[dict[str, object], int, float]:
    """Run a stage to its end; its report, its peak in bytes and its seconds.

    Raises:
        RuntimeError: it failed; with its last words.
    """
    report = folder / "report"
    command = [
        WORKER,
        "--job",
        str(job),
        "--spool",
        str(folder / "spool"),
        "--termination-log",
        str(report),
        *arguments,
    ]
    peak, started = 0, time.monotonic()
    with (folder / "log").open("w+b") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        while process.poll() is None:
            peak = max(peak, resident_peak(process.pid))
            time.sleep(POLL_SECONDS)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{arguments[0]} failed:\n{log.read()[-2000:].decode()}")
    return json.loads(report.read_text()), peak, time.monotonic() - started


def resident_peak(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def measure_plan(lines: int, url: str) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", lines, short_body)
        plan, peak, seconds = run_stage(folder, write_job(folder, url, 1), "plan")
    if plan["lines"] != lines:
        raise RuntimeError(f"{plan['lines']} of {lines} requests were planned")
    return Measured(lines, peak, seconds)


def measure(lines: int, url: str, concurrency: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", lines, make_body)
        job = write_job(folder, url, concurrency)
        plan, _, _ = run_stage(folder, job, "plan")
        arguments = ("--fingerprint", str(plan["fingerprint"]), "--workers", "1", "--index", "0", "--port", "0")
        progress, peak, seconds = run_stage(folder, job, "run", *arguments)
    if progress["completed"] != lines:
        raise RuntimeError(f"{progress['completed']} of {lines} requests were completed")
    return Measured(lines, peak, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--stage", choices=("plan", "run"), default="run", help="whose memory (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON line for each size in place of the table")
    options = parser.parse_args()
    planning = options.stage == "plan"
    if missing(latency=False):
        sys.exit(f"nginx is not there: {INSTALL}")
    if not options.json:
        print("| lines | MiB at most | to the first | lines/s |")
        print("|---:|---:|---:|---:|")
    first: Measured | None = None
    with nginx(core=SERVER_CORE) as url:
        for lines in options.lines:
            one = measure_plan(lines, url) if planning else measure(lines, url, options.concurrency)
            first = first or one
            print(json.dumps(asdict(one)) if options.json else row(one, first), flush=True)


def row(one: Measured, first: Measured) -> str:
    ratio = one.peak_bytes / first.peak_bytes
    return f"| {one.lines:,} | {one.peak_bytes / MIB:.1f} | {ratio:.2f} | {one.lines / one.seconds:,.0f} |"


if __name__ == "__main__":
    main()
