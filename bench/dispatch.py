"""Requests a second and CPU a request, of the worker and of what one would write in its place.

Every contender runs in a process of its own on one core, the server on another. In each round every
contender has its turn against the same server, so that a slow moment of the machine meets all of them;
ratios are taken within a round, and their median is printed. See bench/README.md.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from clients import CONTENDERS
from load import Measured
from servers import nginx as nginx_server
from servers.nginx import nginx
from servers.process import pinned
from servers.stub import stub
from wrk import WRK, measure_wrk

HERE = Path(__file__).resolve().parent
CLIENT_CORE, SERVER_CORE = 0, 1
LATENCY_SECONDS = 0.05
REFERENCES = ("aiohttp", "aiohttp-uvloop")
CPU_RATIO = f"CPU x {REFERENCES[0]}"
QUICK_SERVERS = ("nginx", "stub")
DEFAULT = ("worker", "transport", "aiohttp", "aiohttp-uvloop", "openai")
ALL = (*CONTENDERS, WRK)
PACKAGES = {"openai": "openai", "openai-aiohttp": "openai", "httpx-aiohttp": "httpx_aiohttp"}
PACKAGES |= {"own": "httptools", "own-uvloop": "httptools"}
AIBRIX = "aibrix"
AIBRIX_PYTHON = Path(os.environ.get("AIBRIX_PYTHON", ".aibrix/bin/python"))
"""AIBrix has an environment of its own: it wants other versions of nearly everything."""


@dataclass(frozen=True, slots=True)
class Plan:
    contenders: tuple[str, ...]
    servers: tuple[str, ...]
    requests: int
    concurrency: tuple[int, ...]
    rounds: int
    seconds: float


def servers(core: int | None) -> dict[str, Callable[[], AbstractContextManager[str]]]:
    return {
        "nginx": partial(nginx, core=core),
        "nginx-50ms": partial(nginx, core=core, latency_seconds=LATENCY_SECONDS),
        "stub": partial(stub, core=core),
    }


def missing(name: str) -> str | None:
    """Tell what must be installed for a contender or a server, or None."""
    if name.startswith("nginx"):
        return nginx_server.missing(latency=name != "nginx")
    if name == WRK and shutil.which(WRK) is None:
        return "apt-get install wrk"
    if name == AIBRIX and not AIBRIX_PYTHON.exists():
        return f"python3 -m venv .aibrix && .aibrix/bin/pip install {AIBRIX}==0.8.0, or AIBRIX_PYTHON"
    if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
        return f"{sys.executable} -m pip install --require-hashes -r requirements/bench.txt"
    return None


def available(names: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what isn't installed, and say so."""
    for name in names:
        if install := missing(name):
            print(f"left out: {name} ({install})", file=sys.stderr)
    return tuple(name for name in names if missing(name) is None)


def measure(name: str, url: str, concurrency: int, plan: Plan, core: int | None) -> Measured:
    """Run one contender once.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    if name == WRK:
        return measure_wrk(url, concurrency, plan.seconds, core)
    python = str(AIBRIX_PYTHON) if name == AIBRIX else sys.executable
    command = [python, str(HERE / "clients.py"), name, url]
    command += ["--requests", str(plan.requests), "--concurrency", str(concurrency)]
    command += ["--seconds", str(plan.seconds)]
    done = subprocess.run(
        pinned(command, core), capture_output=True, text=True, timeout=plan.seconds + 120, check=False
    )
    if done.returncode:
        last_lines = "\n".join(done.stderr.splitlines()[-40:])
        raise RuntimeError(f"{name} failed:\n{last_lines}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def rounds(plan: Plan, server: str, concurrency: int, cores: tuple[int | None, int | None]) -> "Table":
    """Measure all contenders against one server, round after round."""
    table: Table = {name: [] for name in plan.contenders}
    with servers(cores[1])[server]() as url:
        for number in range(plan.rounds):
            # Every other round runs backwards, so that no contender always follows the same one.
            for name in plan.contenders[:: 1 if number % 2 == 0 else -1]:
                show_progress(f"{server}, {concurrency} in flight, round {number + 1}: {name}")
                table[name].append(measure(name, url, concurrency, plan, cores[0]))
    show_progress("")
    return table


Table = dict[str, list[Measured]]


def rate(one: Measured) -> float:
    return one.requests / one.seconds


def cpu(one: Measured) -> float:
    """CPU seconds for 1,000 requests."""
    return 1000 * one.cpu_seconds / one.requests


def quiet_us(runs: list[Measured]) -> str:
    """CPU of a request in the quietest moments of all rounds, in microseconds."""
    quiet = [one.quiet_cpu_seconds for one in runs if one.quiet_cpu_seconds is not None]
    return f"{1e6 * min(quiet):.0f}" if quiet else "-"


def ratio(table: Table, name: str, reference: str, figure: Callable[[Measured], float]) -> str:
    if reference not in table:
        return "-"
    pairs = zip(table[name], table[reference], strict=True)
    return f"{median(figure(one) / figure(other) for one, other in pairs):.2f}"


def rows(table: Table) -> Iterator[tuple[str, ...]]:
    yield (
        "client",
        "req/s",
        "range",
        *(f"x {r}" for r in REFERENCES),
        "CPU s per 1,000",
        CPU_RATIO,
        "least CPU µs",
        "RSS MB",
    )
    for name, runs in table.items():
        rates = [rate(one) for one in runs]
        yield (
            CONTENDERS[name].label if name in CONTENDERS else "wrk (C, one thread)",
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f}-{max(rates):,.0f}",
            *(ratio(table, name, reference, rate) for reference in REFERENCES),
            f"{median(cpu(one) for one in runs):.3f}",
            ratio(table, name, REFERENCES[0], cpu),
            quiet_us(runs),
            f"{median(one.peak_rss_mb for one in runs):.0f}" if runs[0].peak_rss_mb else "-",
        )


def show(table: Table) -> None:
    """Print a table that is also Markdown."""
    lines = list(rows(table))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        print("|", " | ".join((first, *others)), "|")
        if number == 0:
            print("|", " | ".join(["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]), "|")


def show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> tuple[Plan, Path | None]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="at most so many a run (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0, help="at most so long a run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (%(default)s)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64], help="in flight (64)")
    parser.add_argument("--servers", nargs="+", choices=servers(None), help="all; --quick: nginx and stub")
    parser.add_argument("--contenders", nargs="+", choices=ALL, default=list(DEFAULT))
    parser.add_argument("--all", action="store_true", help="every contender there is")
    parser.add_argument("--quick", action="store_true", help="a look: two short rounds, under two minutes")
    parser.add_argument("--json", type=Path, help="write every single run here too")
    options = parser.parse_args(arguments)
    plan = Plan(
        contenders=ALL if options.all else tuple(options.contenders),
        servers=tuple(options.servers or (QUICK_SERVERS if options.quick else servers(None))),
        requests=options.requests,
        concurrency=tuple(options.concurrency),
        rounds=options.rounds,
        seconds=options.seconds,
    )
    return replace(plan, rounds=2, seconds=1.5) if options.quick else plan, options.json


def main(arguments: list[str]) -> int:
    plan, record = parse(arguments)
    plan = replace(plan, contenders=available(plan.contenders), servers=available(plan.servers))
    two_cores = (os.cpu_count() or 1) > 1
    cores = (CLIENT_CORE, SERVER_CORE) if two_cores else (None, None)
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.2f} at the start")
    if load > 1:
        print("The machine is busy: only the ratios mean something, and little at that.")
    results = []
    for server in plan.servers:
        for concurrency in plan.concurrency:
            table = rounds(plan, server, concurrency, cores)
            print(f"\n{server}, {concurrency} in flight, {plan.rounds} rounds\n")
            show(table)
            runs = {name: [asdict(one) for one in measured] for name, measured in table.items()}
            results.append({"server": server, "concurrency": concurrency, "runs": runs})
    if record:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
