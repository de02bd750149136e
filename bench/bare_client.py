"""The plainest client over aiohttp, on the lines of an input: `python bare_client.py URL INPUT ...` prints a JSON line.

It sends each body, reads each answer whole, checks its status, and keeps nothing. The clock runs from the first request
to the last answer: neither its start nor reading the input counts.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import uvloop
from chat_lines import read_bodies
from clients import bare_aiohttp
from load import Measured, cpu_seconds, measured


async def send_all(url: str, bodies: list[bytes], concurrency: int) -> Measured:
    """Have so many requests in flight until all are answered."""
    left = iter(bodies)

    async def send_next() -> None:
        for body in left:
            await send(body)

    async with bare_aiohttp(url, concurrency) as send:
        started, cpu_started = time.perf_counter(), cpu_seconds()
        async with asyncio.TaskGroup() as senders:
            for _ in range(concurrency):
                senders.create_task(send_next())
        return measured(len(bodies), started, cpu_started)


def measure_bare(url: str, path: Path, lines: int, concurrency: int) -> Measured:
    """Run the client as a process of its own.

    Raises:
        RuntimeError: it failed; with its last words.
    """
    command = [sys.executable, __file__, url, str(path), "--lines", str(lines), "--concurrency", str(concurrency)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the bare client failed:\n{done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("input", type=Path)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--lines", type=int, required=True, help="of the input, from its beginning")
    options = parser.parse_args(arguments)
    bodies = read_bodies(options.input, options.lines)
    print(json.dumps(asdict(uvloop.run(send_all(options.url, bodies, options.concurrency)))))


if __name__ == "__main__":
    main(sys.argv[1:])
