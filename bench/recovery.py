"""What the sudden death of a worker costs: time until its successor sends, and requests that are sent twice.

A worker gets SIGKILL in the middle of its run, at a moment of its own in each round, and the next pod of its index
starts at once. What Kubernetes adds (seeing that the pod is gone, 10 s until the Job makes the next one, its start) is
not measured here.
"""

import argparse
import json
import random
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import servers.stub
from load import PATH
from memory import WORKER, run_stage, write_job
from servers.process import free_port

WAIT_SECONDS = 120.0
POLL_SECONDS = 0.02
FIRST_KILL, LAST_KILL = 5.5, 11.0
"""Seconds of work before the kill: in any part of the time between two segments."""


@dataclass(frozen=True, slots=True)
class Stub:
    url: str
    control_url: str

    def arrivals(self, last: int = 0) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.control_url}/stub/arrivals?last={last}", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@dataclass(frozen=True, slots=True)
class Recovered:
    seconds: float
    """From the kill to the first request of the successor."""
    twice: int
    """Requests that were sent a second time."""
    sent: int
    """Requests that were sent before the kill."""


@contextmanager
def stub() -> Iterator[Stub]:
    control = free_port()
    with servers.stub.stub(core=None, control_port=control) as url:
        yield Stub(url, f"http://127.0.0.1:{control}")


def line(number: int) -> dict[str, Any]:
    body = {"model": "bench", "messages": [{"role": "user", "content": "Hi"}], "metadata": {"id": f"line-{number}"}}
    return {"custom_id": f"line-{number}", "method": "POST", "url": PATH, "body": body}


def measure(lines: int, concurrency: int, work_seconds: float) -> Recovered:
    """One kill and what follows, to the end of the run."""
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as name, stub() as server:
        folder = Path(name)
        (folder / "input.jsonl").write_text("".join(json.dumps(line(number)) + "\n" for number in range(lines)))
        job = write_job(folder, server.url, concurrency)
        plan, _, _ = run_stage(folder, job, "plan")
        worker = ("run", "--fingerprint", str(plan["fingerprint"]), "--workers", "1", "--index", "0", "--port", "0")
        with (folder / "log-of-the-first").open("wb") as log:
            command = [WORKER, "--job", str(job), "--spool", str(folder / "first"), *worker]
            first = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(lambda: server.arrivals()["total"] > 0)
            time.sleep(work_seconds)
        finally:
            first.kill()
        killed_at = time.time()
        first.wait()
        sent = int(server.arrivals()["total"])
        run_stage(folder, job, *worker)
        times = [arrival["time"] for arrival in server.arrivals(last=lines * 2)["last"]]
        total = server.arrivals()
    if total["distinct"] != lines or sent >= lines:
        raise RuntimeError(f"{total['distinct']} of {lines} requests arrived, {sent} before the kill")
    # What the killed worker had written into its sockets arrives within milliseconds.
    first_again = min(at for at in times[sent - total["total"] :] if at > killed_at)
    return Recovered(first_again - killed_at, int(total["total"]) - lines, sent)


def wait_for(condition: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {WAIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print("| killed after | requests sent by then | first request of the successor after | sent twice |")
    print("|---:|---:|---:|---:|")
    rounds = []
    for _ in range(options.rounds):
        work_seconds = chance.uniform(FIRST_KILL, LAST_KILL)
        one = measure(options.lines, options.concurrency, work_seconds)
        rounds.append(one)
        print(f"| {work_seconds:.1f} s | {one.sent:,} | {one.seconds:.2f} s | {one.twice:,} |", flush=True)
    seconds = median(one.seconds for one in rounds)
    print(f"\nmedians: {seconds:.2f} s, {median(one.twice for one in rounds):,.0f} requests sent twice")


if __name__ == "__main__":
    main()
