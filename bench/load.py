"""What is sent, how much of it, and what is measured: the same for every contender."""

import itertools
import json
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

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


def cpu_seconds() -> float:
    """User and system time of this process by now."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(requests: int, started: float, cpu_started: float) -> Measured:
    """Close a measurement that began at the given readings of perf_counter and cpu_seconds."""
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Measured(requests, time.perf_counter() - started, cpu_seconds() - cpu_started, round(peak_kib / 1024, 1))
