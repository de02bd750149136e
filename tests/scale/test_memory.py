"""Memory that doesn't grow with the input, at the sizes that are promised. The shorter form, which `make test` runs, is
tests/integration/worker/test_memory.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "memory.py"
MIB = 1 << 20
MEGABYTE = 1_000_000

pytestmark = [pytest.mark.scale, pytest.mark.timeout(3600)]


def peaks(stage: str, *lines: int) -> list[int]:
    """The largest resident size of a stage's process for so many lines each, in bytes."""
    command = [sys.executable, str(BENCH), "--json", "--stage", stage, "--lines", *map(str, lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3500, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["peak_bytes"] for line in done.stdout.splitlines()]


def test_a_million_lines_take_as_much_as_ten_thousand_and_under_200_mib() -> None:
    small, large = peaks("run", 10_000, 1_000_000)
    assert large < 1.1 * small, (small / MIB, large / MIB)
    assert 40 * MIB < large < 200 * MIB, large / MIB


def test_20_million_lines_are_planned_within_500_mb() -> None:
    (peak,) = peaks("plan", 20_000_000)
    assert 100 * MEGABYTE < peak < 500 * MEGABYTE, peak / MEGABYTE
