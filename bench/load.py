"""What is sent, how much of it, and what is measured: the same for every contender."""

import asyncio
import itertools
import json
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PATH = "/v1/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
TIMEOUT_SECONDS = 60.0
PROMPT = "Explain to a curious child, in a few short sentences and with an example, why the sky is blue. " * 4


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: until `requests` are answered or `seconds` have passed."""

    url: str
    requests: int
    concurrency: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn of a contender."""

    requests: int
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    quiet_cpu_seconds: float | None = None
    """For each request, in the quietest tenth of the windows: who else runs on the machine hardly shows in it."""


def make_body(number: int) -> bytes:
    """Give a body of about 500 bytes."""
    content = f"{PROMPT}({number})"
    message = {"model": "bench", "messages": [{"role": "user", "content": content}], "max_tokens": 64}
    return json.dumps(message).encode()


def make_line(number: int, body: bytes) -> bytes:
    """Give the line of an input that holds a body as it stands."""
    head = json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": PATH}).encode()
    return head[:-1] + b', "body": ' + body + b"}\n"


def bodies() -> Iterator[bytes]:
    """Give bodies without end."""
    return itertools.cycle([make_body(number) for number in range(1000)])


def peak_rss_mb() -> float:
    """The most memory that this program has had. `ru_maxrss` would count what ran in the process before it, too."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def cpu_seconds() -> float:
    """User and system time of this process by now."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


WINDOW_SECONDS = 0.1
LEAST_REQUESTS = 20


class Windows:
    """CPU time for each request, in windows of a tenth of a second."""

    def __init__(self, done: Callable[[], int]) -> None:
        self._done = done
        self._each: list[float] = []

    async def watch(self) -> None:
        """Look until cancelled."""
        before, cpu = self._done(), cpu_seconds()
        while True:
            await asyncio.sleep(WINDOW_SECONDS)
            now, cpu_now = self._done(), cpu_seconds()
            if now - before >= LEAST_REQUESTS:
                self._each.append((cpu_now - cpu) / (now - before))
                before, cpu = now, cpu_now

    def quiet(self) -> float | None:
        """Seconds for each request in the quietest tenth."""
        return sorted(self._each)[len(self._each) // 10] if self._each else None


def measured(requests: int, started: float, cpu_started: float, quiet_cpu_seconds: float | None = None) -> Measured:
    """Close a measurement that began at the given readings of perf_counter and cpu_seconds."""
    return Measured(
        requests,
        time.perf_counter() - started,
        cpu_seconds() - cpu_started,
        round(peak_rss_mb(), 1),
        quiet_cpu_seconds,
    )
