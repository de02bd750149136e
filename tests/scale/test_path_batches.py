"""A path-based batch as large as research centres' services take them, from the request to its files. The shorter form:
tests/integration/gateway/resource_server/test_path_runs.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchwright.batchfile.lines import split_lines
from fixtures.made_batchjobs import run_batchjob
from fixtures.path_volume import Volume
from fixtures.worker import chat_line

LINES = 150_000
LARGE = 36
BODY_BYTES = 10_000_000
WORKERS = 2
MIB = 1 << 20

pytestmark = [pytest.mark.scale, pytest.mark.timeout(3600)]


def requests() -> Iterator[dict[str, Any]]:
    """So many lines, among which some of 10 MB lie far apart."""
    for number in range(LINES):
        large = number % (LINES // LARGE) == LINES // LARGE // 2
        yield chat_line(f"r-{number}", **({"filler": "x" * BODY_BYTES} if large else {}))


def numbers_in(path: str) -> Iterator[int]:
    """The requests of a published file, in its order."""
    with Path(path).open("rb") as file:
        for lines in split_lines(iter(lambda: file.read(MIB), b""), 16 * MIB):
            for line in lines:
                assert isinstance(line, bytes)
                yield int(json.loads(line)["custom_id"].removeprefix("r-"))


def test_150000_lines_some_of_10_mb_are_answered_in_their_order(volume: Volume) -> None:
    batch_id = volume.create(requests())
    ran = run_batchjob(volume.job(batch_id), workers=WORKERS)
    volume.world.set_status(batch_id, **ran.status)
    result = volume.result(batch_id)
    assert (result["metrics"]["lines_processed"], result["metrics"]["num_responses"]) == (LINES, LINES)
    assert result["errors_file"] is None
    assert all(found == wanted for wanted, found in enumerate(numbers_in(result["results_file"])))
    final = json.loads(Path(result["progress_file"]).read_bytes())
    assert (final["lines_processed"], final["num_responses_so_far"]) == (LINES, LINES)
    assert ran.peak_bytes < 256 * MIB, ran.peak_bytes / MIB


@pytest.mark.parametrize("settings", [{"limits": {"paths": {"lines": LINES - 1}}}])
def test_one_line_more_than_the_settings_allow_is_refused(volume: Volume) -> None:
    plan = volume.job(volume.create(chat_line(f"r-{number}") for number in range(LINES))).start("plan")
    assert plan.wait() != 0
    assert f"The input file has {LINES} requests; the limit is {LINES - 1}." in plan.termination_log.read_text()
