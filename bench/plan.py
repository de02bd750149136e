"""Megabytes a second and memory of checking an input, beside a bare parse of its lines.

All contenders take turns in one process, round after round, so that a slow moment of the machine meets all of them;
ratios are taken within a round, and their median is printed. Only CPU time counts. Memory is measured in a process of
its own that holds what the plan stage holds. See bench/README.md.
"""

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import msgspec

from batchwright.batchfile.lines import split_lines
from batchwright.batchfile.validation import Validator

CHUNK_BYTES = 1 << 20
MAX_BODY_BYTES = 10 << 20
SIZES = {"1 KB": 1024, "4 KB": 4096}
GOALS = {"1 KB": 3.0, "4 KB": 2.0}
ENDPOINT, MODEL = "/v1/chat/completions", "Qwen/Qwen3-8B"
PIPELINE, JSON_PIPELINE, JSON = "batchwright", "json pipeline", "json.loads"
LINES_PER_SHARD = 1000

Contender = Callable[[Path, list[bytes]], None]


# --- Inputs ---


WORDS = """
about after again air all also and animal answer any are because before between both build call came can change city
close come could country cover cross day different does each earth end enough even every eye far father few find first
follow food found give good great group grow had hand hard has have head help her here high him his home house how idea
important into its just keep kind know land large last late learn leave left letter life light like line list little
live long look made make man many may mean might more most mother move much must name near need never new next night
not now number off often old once one only open other our out over own page paper part
"""
RARER = """ "quoted" 1984 3.14 $5 (aside) x_1 [1] """
NOT_ASCII = """ naïve Übung 日本語 Привет 🙂 — """


def text(chance: random.Random, size: int, rarer: list[str]) -> str:
    """Prose with line breaks and lists, quotes and numbers."""
    common, words = WORDS.split(), list[str]()
    left = size
    while left > 0:
        fate = chance.random()
        word = chance.choice(rarer if fate < 0.04 else common)
        word += ".\n" if fate > 0.95 else ".\n\n- " if fate > 0.94 else "," if fate > 0.88 else ""
        words.append(word)
        left -= len(word) + 1
    return " ".join(words)


def request(chance: random.Random, number: int, size: int) -> bytes:
    """A chat request of about `size` bytes. One in four is not all ASCII; half of these escape what isn't."""
    rarer = (RARER + NOT_ASCII if number % 4 == 0 else RARER).split()
    turns = 1 if size < 2048 else 2
    prose = (size - 520) // (2 * turns)
    messages = [{"role": "system", "content": 'You grade answers. Reply with JSON: {"grade": 1-5, "why": "..."}'}]
    for _ in range(turns):
        messages.append({"role": "user", "content": text(chance, prose, rarer)})
        messages.append({"role": "assistant", "content": text(chance, prose, rarer)})
    body = {
        "model": MODEL,
        "messages": messages,
        "max_tokens": chance.randint(64, 2048),
        "temperature": round(chance.random(), 2),
        "top_p": 0.95,
        "seed": chance.randint(0, 2**31),
        "stop": ["###"],
        "metadata": {"dataset": "eval", "row": str(number)},
    }
    line = {"custom_id": f"request-{number:08d}", "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line, ensure_ascii=number % 8 == 0).encode()


def requests(size: int, total: int) -> list[bytes]:
    chance = random.Random(size)
    return [request(chance, number, size) for number in range(total // size)]


# --- Contenders ---


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def batchwright(path: Path, lines: list[bytes]) -> None:
    """What the plan stage does with an input."""
    validator = Validator(endpoint=None, model=None, max_body_bytes=MAX_BODY_BYTES)
    for some in split_lines(chunks(path), MAX_BODY_BYTES):
        validator.take(some)
    assert validator.errors.count == 0
    assert validator.requests == len(lines)
    assert not validator.suspects()
    assert validator.index.shards(LINES_PER_SHARD)


def json_pipeline(path: Path, lines: list[bytes]) -> None:
    """The same with json: everything that one would write in our place, as fast as it goes."""
    decode = json.JSONDecoder(parse_constant=refuse, parse_float=finite).decode
    seen: set[str] = set()
    offsets = array("Q")
    offset = 0
    endpoint = model = None
    for some in split_lines(chunks(path), MAX_BODY_BYTES):
        for line in some:
            assert isinstance(line, bytes)
            value: dict[str, Any] = decode(line.decode())
            custom_id, url, body = value["custom_id"], value["url"], value["body"]
            assert isinstance(custom_id, str)
            assert 1 <= len(custom_id) <= 512
            assert value["method"] == "POST"
            assert isinstance(body, dict)
            endpoint, model = endpoint or url, model or body["model"]
            assert url == endpoint
            assert body["model"] == model
            assert body.get("messages") is not None
            assert not body.get("stream")
            assert custom_id not in seen
            seen.add(custom_id)
            offsets.append(offset)
            offset += len(line) + 1
    assert len(offsets) == len(lines)


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def finite(number: str) -> float:
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"{number} overflows")
    return value


def bare(parse: Callable[[bytes], object]) -> Contender:
    """Parse lines that are cut already, and no more."""

    def contender(path: Path, lines: list[bytes]) -> None:
        for line in lines:
            parse(line)

    return contender


def contenders() -> dict[str, Contender]:
    found = {PIPELINE: batchwright, JSON_PIPELINE: json_pipeline, JSON: bare(json.loads)}
    found["msgspec, untyped"] = bare(msgspec.json.Decoder().decode)
    if importlib.util.find_spec("orjson") is None:
        print(f"left out: orjson ({sys.executable} -m pip install orjson)", file=sys.stderr)
    else:
        import orjson  # type: ignore[import-not-found]

        found["orjson.loads"] = bare(orjson.loads)
    return found


# --- Speed ---


def measure(path: Path, lines: list[bytes], rounds: int) -> dict[str, list[float]]:
    """Megabytes for each second of CPU, of each contender and round."""
    size = path.stat().st_size / 1e6
    found = list(contenders().items())
    rates: dict[str, list[float]] = {name: [] for name, _ in found}
    for number in range(rounds):
        for name, contender in found if number % 2 == 0 else reversed(found):
            started = time.process_time()
            contender(path, lines)
            rates[name].append(size / (time.process_time() - started))
    return rates


def ratio(rates: dict[str, list[float]], name: str, reference: str) -> float:
    return median(one / other for one, other in zip(rates[name], rates[reference], strict=True))


def show_speed(title: str, lines: list[bytes], rates: dict[str, list[float]]) -> None:
    print(f"\n### Lines of {title} ({sum(map(len, lines)) // len(lines):,} bytes on average)\n")
    print("| | MB/s | range | to the json pipeline | to json.loads |\n|---|---|---|---|---|")
    for name, rate in rates.items():
        to_pipeline, to_json = ratio(rates, name, JSON_PIPELINE), ratio(rates, name, JSON)
        spread = f"{min(rate):,.0f}-{max(rate):,.0f}"
        print(f"| {name} | {median(rate):,.0f} | {spread} | {to_pipeline:.2f} | {to_json:.2f} |")
    reached = ratio(rates, PIPELINE, JSON_PIPELINE)
    print(f"\n{PIPELINE} over the {JSON_PIPELINE}: {reached:.2f} (goal {GOALS[title]:.1f})")


# --- Memory ---


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident megabytes: with the program loaded, and at most."""

    loaded: float
    peak: float


def resident(name: str) -> float:
    """A figure of this process (VmRSS, VmHWM). getrusage would count what its parent had before it was started."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1000


def short_requests(lines: int) -> Iterator[bytes]:
    """Chunks of short lines: memory depends on their number, and short ones are made sooner."""
    head = '{"custom_id":"request-'
    tail = f'","method":"POST","url":"{ENDPOINT}","body":{{"model":"{MODEL}","messages":[]}}}}\n'
    for first in range(0, lines, 8192):
        yield "".join([f"{head}{number:09d}{tail}" for number in range(first, min(first + 8192, lines))]).encode()


def use_memory(lines: int) -> Memory:
    """Check an input of many lines in this process."""
    import batchwright.worker.plan  # noqa: F401 - everything that the stage has loaded

    loaded = resident("VmRSS")
    validator = Validator(endpoint=None, model=None, max_body_bytes=MAX_BODY_BYTES)
    for some in split_lines(short_requests(lines), MAX_BODY_BYTES):
        validator.take(some)
    assert validator.errors.count == 0
    assert not validator.suspects()
    assert sum(shard.lines for shard in validator.index.shards(max(LINES_PER_SHARD, lines // 10_000))) == lines
    return Memory(loaded, resident("VmHWM"))


def measure_memory(lines: int) -> Memory:
    command = [sys.executable, __file__, "--in-this-process", str(lines)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Memory(**json.loads(printed))


def show_memory(counts: list[int]) -> None:
    print("\n### Memory\n\n| lines | MB at most | of it the loaded program | bytes a line |\n|---|---|---|---|")
    for lines in counts:
        memory = measure_memory(lines)
        each = (memory.peak - memory.loaded) * 1e6 / lines
        print(f"| {lines:,} | {memory.peak:,.0f} | {memory.loaded:,.0f} | {each:.1f} |", flush=True)
    print("\ngoals: 300 MB at 10,000,000 lines, 500 MB at 20,000,000")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds, under half a minute")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=16, help="size of the input")
    parser.add_argument("--lines", type=int, nargs="*", default=[1_000_000], help="for memory; 10000000 takes a minute")
    parser.add_argument("--in-this-process", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_this_process is not None:
        memory = use_memory(arguments.in_this_process)
        print(json.dumps({"loaded": memory.loaded, "peak": memory.peak}))
        return
    with tempfile.TemporaryDirectory(prefix="batchwright-bench-") as folder:
        for title, size in SIZES.items():
            lines = requests(size, arguments.megabytes << 20)
            path = Path(folder) / f"{size}.jsonl"
            path.write_bytes(b"".join(line + b"\n" for line in lines))
            show_speed(title, lines, measure(path, lines, 3 if arguments.quick else arguments.rounds))
    if arguments.lines:
        show_memory(arguments.lines)


if __name__ == "__main__":
    main()
