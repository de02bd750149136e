"""The fields of the progress object, as clients read them."""

import json

import pytest

from batchwright.batchfile.counts import ProgressCounts, Usage
from batchwright.batchfile.progress_object import counts_of, final_progress_object, progress_object, throughput
from batchwright.batchfile.shard_record import Totals

SO_FAR = {"lines_processed": 7, "total_tokens_so_far": 300, "num_responses_so_far": 5}


@pytest.mark.parametrize(
    ("totals", "counts"),
    [
        (Totals(), ProgressCounts()),
        (Totals(5, 2, Usage(100, None, 200, None, 300)), ProgressCounts(7, 300, 5)),
        (Totals(5, 2), ProgressCounts(7, 0, 5)),
    ],
)
def test_lines_are_all_and_responses_those_answered(totals: Totals, counts: ProgressCounts) -> None:
    assert counts_of(totals) == counts


def test_during_the_run() -> None:
    assert json.loads(progress_object(ProgressCounts(7, 300, 5))) == SO_FAR


def test_at_the_end_there_are_metrics_too() -> None:
    found = json.loads(final_progress_object(ProgressCounts(7, 300, 5), seconds=1.5, reused_tokens=0))
    metrics = {
        "response_time": 1.5,
        "throughput_tokens_per_second": 200.0,
        "total_tokens": 300,
        "num_responses": 5,
        "lines_processed": 7,
    }
    assert found == SO_FAR | {"metrics": metrics}
    assert isinstance(found["metrics"]["response_time"], float)


def test_tokens_of_an_earlier_batchjob_make_no_run_faster() -> None:
    found = json.loads(final_progress_object(ProgressCounts(7, 300, 5), seconds=2.0, reused_tokens=100))
    assert found["metrics"]["throughput_tokens_per_second"] == 100.0
    assert found["metrics"]["total_tokens"] == 300


@pytest.mark.parametrize(
    ("tokens", "seconds", "expected"), [(300, 0.0, 0.0), (0, 5.0, 0.0), (-1, 5.0, 0.0), (1, 3.0, 0.333)]
)
def test_a_rate_is_always_a_number(tokens: int, seconds: float, expected: float) -> None:
    assert throughput(tokens, seconds) == expected
