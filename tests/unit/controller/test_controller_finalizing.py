"""The merge stage."""

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import (
    MergeProgress,
    Progress,
    ShardsMissingReport,
)
from batchwright.api.status import Reused, ShardCounts
from batchwright.controller.core import conditions
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    Wait,
)
from batchwright.controller.settings import Settings
from builders import JobBuilder, ago, batchjob, job
from fixtures.reconciling import MERGED, after, created, failed_with, failing_with, failure, plan_for, status_of


class TestFinalizing:
    MERGING = batchjob().planned().with_job(job("run", 1).complete())

    def test_it_waits_for_the_pod_of_the_merge_and_then_merges(self) -> None:
        def reason(merge: JobBuilder) -> str | None:
            reconciling = conditions.find(status_of(self.MERGING.with_job(merge)), ConditionType.RECONCILING)
            return reconciling and reconciling.reason

        assert reason(job("merge", 1)) == "WaitingForMerge"
        assert reason(job("merge", 1).running_pod()) == "Merging"

    @pytest.mark.parametrize(
        ("merging", "message"),
        [
            (None, "Merging the results."),
            (MergeProgress(run=2, bytes_joined=1, bytes_total=2), "Merging the results."),
            (MergeProgress(run=1), "Merging."),
            (MergeProgress(run=1, bytes_joined=0, bytes_total=900), "Merging: 0 of 900 B."),
            (MergeProgress(run=1, bytes_joined=1_240_000_000, bytes_total=4 * 10**9), "Merging: 1.2 of 4.0 GB."),
            (
                MergeProgress(run=1, bytes_joined=10**6, bytes_total=2 * 10**6, message="Waiting for the storage: 503"),
                "Merging: 1.0 of 2.0 MB. Waiting for the storage: 503.",
            ),
        ],
    )
    def test_it_says_how_far_the_merge_is(self, merging: MergeProgress | None, message: str) -> None:
        status = status_of(self.MERGING.with_job(job("merge", 1).running_pod()).with_(merging=merging))
        assert status.message == message

    def test_it_asks_the_merge_again_without_reading_everything_anew(self) -> None:
        wait = plan_for(self.MERGING.with_job(job("merge", 1).running_pod())).wait
        assert wait == Wait(Settings().poll_interval, refresh=False)

    def test_published_results_complete_the_batchjob(self) -> None:
        builder = self.MERGING.with_status(finalizing_at=ago(seconds=10)).with_job(job("merge", 1).ended_pod(MERGED))
        status = status_of(builder)
        assert status.phase is Phase.COMPLETED
        complete = conditions.find(status, ConditionType.COMPLETE)
        assert complete is not None
        assert (complete.status, complete.reason) == ("True", "CompletedWithFailures")
        assert "400: 10" in complete.message
        assert "s3://b/out/errors.jsonl" in complete.message
        assert status.request_counts == MERGED.request_counts
        assert status.shards == ShardCounts(total=4, completed=4)
        assert status.output == MERGED.output
        assert status.error_codes == {"400": 10}
        assert status.progress == "4000/4000"
        assert status.metrics is not None
        assert (status.metrics.response_time_seconds, status.metrics.requests_per_second) == ("40", "100.0")
        assert status.completed_at is not None

    @pytest.mark.parametrize(
        ("seconds", "shown", "rate"), [(12.5, "12.5", "320.0"), (0.25, "0.25", "16000.0"), (100.0, "100", "40.0")]
    )
    def test_how_long_the_run_was_is_what_the_progress_object_says(self, seconds: float, shown: str, rate: str) -> None:
        report = MERGED.model_copy(update={"response_time_seconds": seconds})
        builder = self.MERGING.with_status(finalizing_at=ago(seconds=10)).with_job(job("merge", 1).ended_pod(report))
        metrics = status_of(builder).metrics
        assert metrics is not None
        assert (metrics.response_time_seconds, metrics.requests_per_second) == (shown, rate)

    def test_of_a_run_that_took_no_time_there_is_no_rate(self) -> None:
        report = MERGED.model_copy(update={"response_time_seconds": 0.0})
        metrics = status_of(self.MERGING.with_job(job("merge", 1).ended_pod(report))).metrics
        assert metrics is not None
        assert (metrics.response_time_seconds, metrics.requests_per_second) == ("0", None)

    def test_the_merge_is_told_when_the_run_began(self) -> None:
        names = {"uri": "s3://bucket/out/", "names": {"progress": "progress.json"}}
        builder = self.MERGING.with_spec(output=names).with_status(in_progress_at=ago(seconds=50))
        (create,) = [action for action in plan_for(builder).actions if isinstance(action, CreateJob)]
        args = create.manifest["spec"]["template"]["spec"]["containers"][0]["args"]
        assert args[args.index("--began") + 1] == ago(seconds=50).isoformat()

    def test_a_server_that_was_away_is_not_shown_as_away_for_ever(self) -> None:
        away = Progress(index=0, run=1, server_available=False)
        running = batchjob().planned().with_job(job("run", 1).running_pod(index=0)).with_progress(away)
        outage = status_of(running)
        assert not conditions.is_true(outage, ConditionType.SERVER_AVAILABLE)
        merged = self.MERGING.with_status(**dict(outage)).with_job(job("merge", 1).ended_pod(MERGED))
        assert conditions.is_true(status_of(merged), ConditionType.SERVER_AVAILABLE)

    def test_missing_shards_are_repaired_by_another_run(self) -> None:
        missing = ShardsMissingReport(count=1, shards="3")
        plan = plan_for(self.MERGING.with_job(job("merge", 1).ended_pod(missing, code=1)))
        assert created(plan) == ["run-2"]
        assert [type(action) for action in plan.actions if not isinstance(action, CreateConfigMap)] == [
            CreateJob,
            DeleteJob,
        ]
        assert plan.status is not None
        assert (plan.status.phase, plan.status.run) == (Phase.IN_PROGRESS, 2)
        assert any(notice.reason == "Repairing" for notice in plan.notices)

    def test_a_repair_is_merged_on_its_own(self) -> None:
        builder = batchjob().planned(run=2).with_job(job("run", 1).complete(), job("run", 2).complete())
        assert created(plan_for(builder)) == ["merge-2"]

    def test_after_three_repairs_it_fails_naming_the_shards(self) -> None:
        missing = ShardsMissingReport(count=2, shards="1,3")
        crashed = job("run", 4).ended_pod(None, code=1).failed("FailedIndexes")
        builder = batchjob().planned(run=4).with_job(crashed, job("merge", 4).ended_pod(missing, code=1))
        reason, message = failing_with(status_of(builder))
        assert reason == "ShardsMissing"
        assert "1,3" in message
        assert "exit code 1" in message
        assert created(plan_for(after(builder))) == ["merge-4-2"]

    @pytest.mark.parametrize("standing", [0, 1])
    def test_where_nothing_was_ever_done_a_repair_is_not_tried(self, standing: int) -> None:
        missing = ShardsMissingReport(count=4 - standing, shards=f"{standing}-3")
        crashed = job("run", 1).ended_pod(None, code=137, reason="OOMKilled").failed("FailedIndexes")
        builder = batchjob().planned().with_status(reused=Reused(completed=1000 * standing, shards=standing))
        builder = builder.with_job(crashed, job("merge", 1).ended_pod(missing, code=1))
        reason, message = failing_with(status_of(builder))
        assert reason == "RunFailed"
        assert "memory" in message

    def test_a_merge_whose_storage_fails_to_the_end_says_so(self) -> None:
        report = failure(Reason.STORAGE_UNREACHABLE, "connection reset", final=False)
        waiting = self.MERGING.with_job(job("merge", 1).ended_pod(report, code=1))
        assert status_of(waiting).phase is Phase.FINALIZING
        reason, message = failed_with(
            status_of(self.MERGING.with_job(job("merge", 1).ended_pod(report, code=1).failed()))
        )
        assert reason == "MergeFailed"
        assert "connection reset" in message

    def test_a_merge_that_ended_without_a_word_runs_again(self) -> None:
        assert created(plan_for(self.MERGING.with_job(job("merge", 1).complete()))) == ["merge-1-2"]

    def test_the_merge_proves_that_a_vanished_run_was_done(self) -> None:
        builder = batchjob().planned().with_job(job("merge", 1).running_pod())
        assert created(plan_for(builder)) == []
        assert status_of(builder).phase is Phase.FINALIZING
