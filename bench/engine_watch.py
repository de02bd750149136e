"""What a vLLM server says of itself, and does while somebody sends to it, read from its own metrics."""

import json
import re
import threading
import time
import urllib.request
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import pairwise
from statistics import fmean

TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.25
"""It costs the server some milliseconds each time, and that the same for every contender."""
MOST_SILENT_SECONDS = 5.0
"""Between two looks that `steady` goes by; a busy front end may take some for an answer."""
STEADY_FROM, STEADY_TO = 0.1, 0.9
"""Parts of all requests between which the rate is steady: neither the beginning nor the last ones are in it."""


def metric(text: str, name: str) -> float:
    """Give the sum of vLLM's metric of this name over its labels, such as num_requests_running."""
    return sum(float(value) for value in re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def read_text(url: str) -> str:
    """Read what lies at a URL."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return str(answer.read().decode())


def served_model(url: str) -> str:
    """Ask a server for the name of its model."""
    return str(json.loads(read_text(f"{url}/v1/models"))["data"][0]["id"])


@dataclass(frozen=True, slots=True)
class Steady:
    """The middle part of some work."""

    rate: float
    """Requests answered a second."""
    running: float
    """Requests in the engine at once, in the mean; what waits in its queue is not in it."""
    waiting: float
    """Requests in its queue, in the mean."""


@dataclass
class EngineWatch:
    """The engine's counts over the time."""

    url: str
    times: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)

    def steady(self, requests: int) -> Steady:
        """Look at the middle of the work that was watched, which was so many requests.

        Raises:
            RuntimeError: the server has counted too few of them, or was silent for long in that time.
        """
        done = [count - self.answered[0] for count in self.answered]
        if done[-1] < STEADY_TO * requests:
            raise RuntimeError(f"the server counted {done[-1]:.0f} of {requests} requests")
        first, last = (self._place(done, part * requests) for part in (STEADY_FROM, STEADY_TO))
        within = slice(int(first[0]), max(int(last[0]), int(first[0]) + 1))
        looks = self.times[max(0, int(first[0]) - 1) : int(last[0]) + 1]
        if silent := [after - before for before, after in pairwise(looks) if after - before > MOST_SILENT_SECONDS]:
            raise RuntimeError(f"the server said nothing of itself for {max(silent):.0f} s")
        rate = (STEADY_TO - STEADY_FROM) * requests / (last[1] - first[1])
        return Steady(rate, fmean(self.running[within]), fmean(self.waiting[within]))

    def _place(self, done: list[float], count: float) -> tuple[int, float]:
        """Give the first sample with so many answers, and the time at which there were so many, between two samples."""
        after = bisect_left(done, count)
        before = after - 1
        part = (count - done[before]) / (done[after] - done[before])
        return after, self.times[before] + part * (self.times[after] - self.times[before])

    def _look(self) -> None:
        text = read_text(f"{self.url}/metrics")
        self.times.append(time.perf_counter())
        self.answered.append(metric(text, "request_success_total"))
        self.running.append(metric(text, "num_requests_running"))
        self.waiting.append(metric(text, "num_requests_waiting"))

    def _look_if_there(self) -> None:
        """A batch runner is gone once it is done, and a busy server may be late: `steady` tells what is missing."""
        with suppress(OSError, HTTPException):
            self._look()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(POLL_SECONDS):
            self._look_if_there()


@contextmanager
def watched(url: str) -> Iterator[EngineWatch]:
    """Watch a server until the block ends."""
    watch = EngineWatch(url)
    watch._look()
    over = threading.Event()
    watching = threading.Thread(target=watch._watch, args=(over,))
    watching.start()
    try:
        yield watch
    finally:
        over.set()
        watching.join()
        watch._look_if_there()
