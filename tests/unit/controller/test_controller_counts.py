"""Counts never fall while a run goes on; rate and time left are readable."""

from datetime import timedelta
from typing import Any

import pytest

from batchwright.api.conditions import Reason
from batchwright.api.reports import Progress
from batchwright.api.status import BatchJobStatus, RequestCounts, Reused, ShardCounts, Usage
from batchwright.controller.core import counts, progress
from batchwright.controller.core.observed import Sample
from builders import NOW, ago


def status(*, total: int = 100, completed: int = 0, failed: int = 0, usage: Usage | None = None) -> BatchJobStatus:
    return BatchJobStatus(
        request_counts=RequestCounts(total=total, completed=completed, failed=failed),
        shards=ShardCounts(total=10),
        usage=usage,
    )


def worker(index: int, completed: int = 0, failed: int = 0, run: int = 1, **rest: object) -> Progress:
    return Progress.model_validate({"index": index, "run": run, "completed": completed, "failed": failed, **rest})


def test_the_workers_are_added_up_over_all_runs() -> None:
    found = counts.facts(status(), [worker(0, 10, 1), worker(1, 20, 2), worker(0, 5, run=2)], run=2)
    assert found["request_counts"] == RequestCounts(total=100, completed=35, failed=3)


@pytest.mark.parametrize(
    ("run", "published", "failed"),
    [(1, 0, 6), (1, 8, 8), (2, 0, 4), (2, 8, 4)],
    ids=["first run", "first run, more published", "repair", "repair, more published"],
)
def test_a_repair_counts_no_failure_twice_where_it_matters(run: int, published: int, failed: int) -> None:
    known = status(failed=published).model_copy(update={"run": run})
    reports = [worker(0, failed=1), worker(1, failed=3 if run == 2 else 5), *[worker(0, failed=2, run=2)] * (run - 1)]
    assert counts.without_repetitions(known, reports).failed == failed


@pytest.mark.parametrize(
    ("before", "reports", "after"),
    [
        ((30, 5), [], (30, 5)),
        ((30, 5), [(10, 1)], (30, 5)),
        ((30, 5), [(40, 6)], (40, 6)),
        ((0, 0), [(99, 5)], (95, 5)),
        ((98, 0), [(98, 5)], (98, 2)),
    ],
    ids=["nobody heard", "one of several heard", "further", "not more than there are", "nothing is taken back"],
)
def test_what_was_published_never_falls(
    before: tuple[int, int], reports: list[tuple[int, int]], after: tuple[int, int]
) -> None:
    known = status(completed=before[0], failed=before[1])
    found = counts.facts(known, [worker(index, *report) for index, report in enumerate(reports)], run=1)
    assert (found["request_counts"].completed, found["request_counts"].failed) == after


class TestReused:
    """What stands from an earlier BatchJob is added to what workers report."""

    REUSED = Reused(completed=70, failed=5, shards=6, usage=Usage(input_tokens=700), finish_reasons={"stop": 70})

    def known(self, reused: Reused, total: int = 100) -> BatchJobStatus:
        return status(total=total).model_copy(update={"reused": reused})

    def test_before_a_worker_is_heard(self) -> None:
        assert counts.facts(self.known(self.REUSED), [], run=1) == {
            "request_counts": RequestCounts(total=100, completed=70, failed=5),
            "shards": ShardCounts(total=10, completed=6),
            "usage": Usage(input_tokens=700),
            "finish_reasons": {"stop": 70},
        }

    def test_together_with_what_workers_did(self) -> None:
        done = {"usage": {"inputTokens": 9, "outputTokens": 4}, "finish_reasons": {"stop": 8, "length": 1}}
        reports = [worker(0, 9, 1, shards_completed=2, **done), worker(1, 3, shards_completed=1)]
        found = counts.facts(self.known(self.REUSED), reports, run=1)
        assert found["request_counts"] == RequestCounts(total=100, completed=82, failed=6)
        assert found["shards"] == ShardCounts(total=10, completed=9)
        assert found["usage"] == Usage(input_tokens=709, output_tokens=4)
        assert found["finish_reasons"] == {"stop": 78, "length": 1}
        assert counts.done_by_now(self.known(self.REUSED), reports) == 88

    def test_where_all_stands_what_a_worker_says_is_of_the_earlier_batchjob(self) -> None:
        known = self.known(self.REUSED, total=75)
        reports = [worker(0, 70, 5, shards_completed=10, usage={"inputTokens": 700}, finish_reasons={"stop": 70})]
        assert counts.facts(known, reports, run=1) == counts.facts(known, [], run=1)


def test_active_shards_are_those_of_this_run() -> None:
    reports = [worker(0, run=1, shards_active=1, shards_completed=2), worker(0, run=2, shards_active=1)]
    assert counts.facts(status(), reports, run=2)["shards"] == ShardCounts(total=10, completed=2, active=1)


def test_tokens_that_no_answer_reported_stay_unknown() -> None:
    reports = [worker(0, usage={"inputTokens": 5}), worker(1, usage={"inputTokens": 6, "outputTokens": 1})]
    assert counts.facts(status(), reports, run=1)["usage"] == Usage(input_tokens=11, output_tokens=1)
    assert "usage" not in counts.facts(status(), [worker(0)], run=1)


def test_the_furthest_report_of_an_index_counts_and_the_last_tells_of_the_moment() -> None:
    moment: dict[str, Any] = {
        "shards_active": 3,
        "concurrency": 5,
        "server_available": False,
        "server_reason": Reason.SERVER_UNAUTHORIZED,
        "server_since": NOW,
        "server_message": "refused",
    }
    (found,) = counts.latest_of_each_worker([worker(0, 10), worker(0, 4, **moment)])
    assert found == worker(0, 10, **moment)


def samples(*points: tuple[float, int]) -> tuple[Sample, ...]:
    return tuple(Sample(ago(seconds=seconds), done) for seconds, done in points)


def test_the_rate_is_that_of_the_samples_and_the_time_left_follows() -> None:
    found = progress.facts(status(total=1000, completed=400), samples((10, 200), (0, 400)))
    assert (found["progress"], found["rate"], found["eta"]) == ("400/1000", "20/s", "30s")
    assert found["estimated_completion_time"] == NOW + timedelta(seconds=30)


@pytest.mark.parametrize("points", [(), ((0, 5),), ((0.5, 1), (0, 5))], ids=["none", "one", "too close"])
def test_without_enough_samples_there_is_no_rate(points: tuple[tuple[float, int], ...]) -> None:
    assert "rate" not in progress.facts(status(), samples(*points))


def test_a_standstill_shows_a_rate_of_zero_and_no_end() -> None:
    found = progress.facts(status(completed=5), samples((30, 5), (0, 5)))
    assert (found["rate"], found["eta"], found["estimated_completion_time"]) == ("0/s", None, None)


def test_samples_older_than_the_window_go() -> None:
    kept = progress.extend(samples((70, 1), (50, 2)), NOW, 3)
    assert [sample.done for sample in kept] == [2, 3]


@pytest.mark.parametrize(("rate", "text"), [(0.0, "0/s"), (0.25, "0.2/s"), (9.96, "10.0/s"), (411.6, "412/s")])
def test_rates_are_short(rate: float, text: str) -> None:
    assert progress.format_rate(rate) == text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=3), "3m"),
        (timedelta(hours=2, minutes=5), "2h5m"),
        (timedelta(hours=9, minutes=5), "9h"),
        (timedelta(days=4, hours=3), "4d"),
    ],
)
def test_times_left_read_as_kubectl_writes_them(left: timedelta, text: str) -> None:
    assert progress.format_time_left(left) == text
