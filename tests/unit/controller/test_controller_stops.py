"""What stops a BatchJob: cancel, the end of the completion window, too many failures, a run that failed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import MergeProgress, Progress, ShardsMissingReport
from batchwright.api.status import (
    Metrics,
    RequestCounts,
    ShardCounts,
)
from batchwright.api.undone import Undone
from batchwright.controller.core import conditions
from builders import IDENTITY, NOW, BatchJobBuilder, ago, batchjob, job
from fixtures.reconciling import MERGED, after, created, failing_with, failure, plan_for, status_of
from fixtures.stopping import (
    CLOSED,
    ENDED_RUN,
    MISSING,
    RUNNING,
    WINDOW,
    cancelling,
    closing,
    closing_arguments,
    deleted,
    end_of,
    reconciling,
    targeted,
)


class TestCancel:
    @pytest.mark.parametrize(
        "builder",
        [
            batchjob(),
            batchjob().with_job(job("plan").running_pod()),
            batchjob().planned(),
            batchjob().planned().with_job(RUNNING),
            batchjob().planned().with_job(ENDED_RUN),
            batchjob().planned().with_job(ENDED_RUN, job("merge", 1).running_pod()),
            batchjob().planned(run=2).with_job(ENDED_RUN, job("run", 2).running_pod()),
            batchjob().planned().refused("Job x", "quota", ago(hours=1)),
        ],
        ids=["new", "planning", "planned", "running", "finalizing", "merging", "repairing", "refused"],
    )
    def test_it_works_in_every_phase(self, builder: BatchJobBuilder) -> None:
        status = status_of(builder.cancelled())
        assert status.phase in (Phase.CANCELLING, Phase.CANCELLED)
        assert status.cancelling_at is not None

    def test_a_merge_that_works_already_goes_on_and_the_end_is_cancelled(self) -> None:
        merging = cancelling(ENDED_RUN, job("merge", 1).running_pod())
        assert (deleted(plan_for(merging)), created(plan_for(merging))) == ([], [])
        status = status_of(cancelling(ENDED_RUN, job("merge", 1).ended_pod(MERGED)))
        assert status.phase is Phase.CANCELLED
        assert status.request_counts == MERGED.request_counts
        assert status.shards == ShardCounts(total=4, completed=4)
        assert "apply it anew" not in end_of(status)[1]

    def test_where_the_report_of_the_merge_is_there_first_it_is_completed(self) -> None:
        merged = batchjob().cancelled().planned().with_job(ENDED_RUN, job("merge", 1).ended_pod(MERGED))
        assert status_of(merged).phase is Phase.COMPLETED

    def test_a_merge_that_misses_shards_is_followed_by_one_that_closes(self) -> None:
        plan = plan_for(cancelling(ENDED_RUN, job("merge", 1).ended_pod(MISSING, code=26).failed()))
        assert created(plan) == ["merge-1-2"]
        assert closing_arguments(plan)[-2:] == ["--undone", "batch_cancelled"]

    def test_taken_back_it_stands(self) -> None:
        builder = cancelling().with_spec(cancel=False)
        assert status_of(builder).phase is Phase.CANCELLING
        assert created(plan_for(builder)) == ["merge-1"]

    @pytest.mark.parametrize(
        "spec", [WINDOW, {"requests": {"maxFailures": 0}}, {"suspend": True}], ids=["expiry", "failures", "suspend"]
    )
    def test_it_wins_over_every_other_stop(self, spec: dict[str, Any]) -> None:
        status = status_of(cancelling().with_spec(**spec).with_status(request_counts=RequestCounts(total=9, failed=5)))
        assert status.phase is Phase.CANCELLING
        assert status.finalizing_at is None

    def test_it_wins_over_a_stop_that_is_being_closed(self) -> None:
        expiring = targeted(batchjob().with_spec(**WINDOW).planned(), Reason.EXPIRED)
        cancelled = expiring.cancelled().with_job(closing(Undone.EXPIRED).running_pod())
        assert (deleted(plan_for(cancelled)), created(plan_for(cancelled))) == ([], [])
        assert status_of(cancelled).phase is Phase.CANCELLING
        published = after(cancelled).with_(pods=closing(Undone.EXPIRED).ended_pod(CLOSED).pods)
        assert status_of(published).phase is Phase.CANCELLED
        target = conditions.find(status_of(published), ConditionType.FAILURE_TARGET)
        assert target is not None
        assert target.reason == "Cancelled"

    def test_the_times_are_those_of_openai(self) -> None:
        status = status_of(cancelling(closing(Undone.CANCELLED).ended_pod(CLOSED)))
        assert (status.cancelling_at, status.cancelled_at) == (ago(seconds=10), NOW)
        assert (status.finalizing_at, status.completed_at, status.failed_at, status.expired_at) == (None,) * 4
        assert status.metrics == Metrics(
            response_time_seconds="40", throughput_tokens_per_second="0.2", requests_per_second="27.5"
        )

    def test_the_message_tells_what_is_there_and_how_to_go_on(self) -> None:
        _, message = end_of(status_of(cancelling(closing(Undone.CANCELLED).ended_pod(CLOSED))))
        assert message == (
            "Cancelled. 1000 of 4000 requests completed, 100 failed (400: 90, 500: 10), 2900 were not done."
            " Results and errors are published. To go on, delete this BatchJob and apply it anew: what is finished is"
            " not sent again. The request lines that are left are in s3://b/out/retry.jsonl."
        )

    def test_it_says_how_far_the_merge_is(self) -> None:
        merging = cancelling(closing(Undone.CANCELLED).running_pod())
        far = merging.with_(merging=MergeProgress(run=1, bytes_joined=10**6, bytes_total=2 * 10**6))
        assert status_of(far).message == "Cancelling. Merging: 1.0 of 2.0 MB."


class TestExpiry:
    def test_the_window_runs_from_creation(self) -> None:
        status = status_of(batchjob().with_spec(**WINDOW).planned())
        assert status.expires_at == IDENTITY.created_at + timedelta(seconds=30)

    def test_the_next_look_is_not_after_it(self) -> None:
        wait = plan_for(batchjob().with_spec(completionWindow="61s").with_job(job("plan").running_pod())).wait
        assert wait is not None
        assert wait.after == timedelta(seconds=1)

    def test_one_without_an_end_expires_never(self) -> None:
        assert status_of(batchjob().with_spec(completionWindow="2562047h")).expires_at is not None
        assert status_of(batchjob()).expires_at is None

    @pytest.mark.parametrize(("window", "end"), [("30s", Phase.EXPIRED), ("61s", Phase.COMPLETED)])
    def test_a_merge_that_works_when_it_ends_goes_on(self, window: str, end: Phase) -> None:
        merging = batchjob().with_spec(completionWindow=window).planned().with_job(ENDED_RUN)
        working = plan_for(merging.with_job(job("merge", 1).running_pod()))
        assert (created(working), deleted(working)) == ([], [])
        assert working.status is not None
        assert working.status.phase is Phase.FINALIZING
        status = status_of(merging.with_job(job("merge", 1).ended_pod(MERGED)))
        assert (status.phase, status.output) == (end, MERGED.output)

    def test_what_was_published_in_time_is_completed_however_late_it_is_seen(self) -> None:
        published = job("merge", 1).ended_pod(MERGED)
        (pod,) = published.pods
        assert pod.termination is not None
        early = replace(pod, termination=replace(pod.termination, at=ago(seconds=31)))
        builder = batchjob().with_spec(**WINDOW).planned().with_job(ENDED_RUN, replace(published, pods=(early,)))
        assert status_of(builder).phase is Phase.COMPLETED

    def test_extended_in_time_the_work_goes_on(self) -> None:
        expiring = after(batchjob().with_spec(**WINDOW).planned().with_job(RUNNING.with_(deleting=True)))
        assert expiring.status.finalizing_at is not None
        extended = replace(expiring.with_spec(completionWindow="1h"), jobs=())
        plan = plan_for(extended)
        assert created(plan) == ["run-1"]
        assert plan.status is not None
        assert (plan.status.phase, plan.status.finalizing_at) == (Phase.IN_PROGRESS, None)

    def test_extended_once_it_is_being_closed_it_has_expired(self) -> None:
        builder = targeted(batchjob().with_spec(completionWindow="1h").planned(), Reason.EXPIRED)
        assert created(plan_for(builder)) == ["merge-1"]
        assert status_of(builder.with_job(closing(Undone.EXPIRED).running_pod())).phase is Phase.FINALIZING
        assert status_of(builder.with_job(closing(Undone.EXPIRED).ended_pod(CLOSED))).phase is Phase.EXPIRED

    def test_the_times_are_those_of_openai(self) -> None:
        builder = batchjob().with_spec(**WINDOW).planned().with_status(finalizing_at=ago(seconds=10))
        status = status_of(builder.with_job(closing(Undone.EXPIRED).ended_pod(CLOSED)))
        assert (status.finalizing_at, status.expired_at) == (ago(seconds=10), NOW)
        assert (status.cancelling_at, status.completed_at, status.failed_at) == (None,) * 3

    def test_a_run_that_began_unseen_is_dated_by_its_job(self) -> None:
        unseen = batchjob().with_spec(**WINDOW).planned().with_status(in_progress_at=None).with_job(RUNNING)
        assert status_of(unseen).in_progress_at == RUNNING.view.created_at

    def test_a_run_that_began_after_the_stop_does_not_turn_the_times_around(self) -> None:
        """An operator that saw no stop yet had created it."""
        stopped = RUNNING.view.created_at - timedelta(seconds=5)
        late = batchjob().with_spec(**WINDOW).planned().with_job(RUNNING)
        status = status_of(late.with_status(in_progress_at=None, finalizing_at=stopped))
        assert (status.in_progress_at, status.finalizing_at) == (stopped, stopped)

    def test_an_input_that_was_found_wrong_before_tells_more(self) -> None:
        wrong = job("plan").ended_pod(failure(Reason.INVALID_INPUT, "line 7"), code=20).failed("PodFailurePolicy")
        status = status_of(batchjob().with_spec(**WINDOW).with_job(wrong))
        assert (status.phase, end_of(status)) == (Phase.FAILED, ("InvalidInput", "line 7"))


class TestTooManyFailures:
    @pytest.mark.parametrize(
        ("limit", "failed", "stops"),
        [
            (0, 0, False),
            (0, 1, True),
            (10, 10, False),
            (10, 11, True),
            ("5%", 200, False),
            ("5%", 201, True),
            ("0%", 1, True),
            ("100%", 4000, False),
            (None, 4000, False),
        ],
    )
    def test_one_more_than_allowed_stops(self, limit: int | str | None, failed: int, stops: bool) -> None:
        builder = batchjob().with_spec(requests={"maxFailures": limit}).planned().with_job(RUNNING)
        plan = plan_for(builder.with_progress(Progress(index=0, run=1, failed=failed)))
        assert bool(deleted(plan)) is stops

    def test_it_does_not_matter_whether_the_limit_is_passed_before_the_last_request(self) -> None:
        merged = batchjob().with_spec(requests={"maxFailures": 9}).planned().with_job(ENDED_RUN)
        status = status_of(merged.with_job(job("merge", 1).ended_pod(MERGED)))
        reason, message = end_of(status)
        assert (status.phase, reason) == (Phase.FAILED, "TooManyFailures")
        assert message == (
            "More requests failed than spec.requests.maxFailures (9) allows. 3990 of 4000 requests completed,"
            " 10 failed (400: 10). Results and errors are published."
        )

    @pytest.mark.parametrize(("again", "stops"), [(10, False), (11, True)])
    def test_what_is_done_again_in_a_repair_counts_once(self, again: int, stops: bool) -> None:
        builder = batchjob().with_spec(requests={"maxFailures": 10}).planned(run=2)
        builder = builder.with_job(ENDED_RUN, job("run", 2).running_pod(index=0))
        reports = Progress(index=0, run=1, failed=10), Progress(index=0, run=2, failed=again)
        assert bool(deleted(plan_for(builder.with_progress(*reports)))) is stops

    def test_the_totals_of_the_merge_count_not_what_workers_counted_twice(self) -> None:
        counted = batchjob().with_spec(requests={"maxFailures": 10}).planned().with_job(ENDED_RUN)
        counted = counted.with_status(request_counts=RequestCounts(total=4000, failed=15))
        assert status_of(counted.with_job(job("merge", 1).ended_pod(MERGED))).phase is Phase.COMPLETED

    def test_a_higher_limit_comes_too_late_once_it_is_being_closed(self) -> None:
        builder = targeted(batchjob().planned(), Reason.TOO_MANY_FAILURES)
        builder = builder.with_job(closing(Undone.FAILED).running_pod())
        assert status_of(builder).phase is Phase.FINALIZING
        assert reconciling(status_of(builder)) == "Failing"

    def test_the_times_are_those_of_openai(self) -> None:
        builder = targeted(batchjob().planned(), Reason.TOO_MANY_FAILURES).with_status(finalizing_at=ago(seconds=10))
        status = status_of(builder.with_job(closing(Undone.FAILED).ended_pod(CLOSED)))
        assert (status.finalizing_at, status.failed_at) == (ago(seconds=10), NOW)
        assert (status.cancelling_at, status.completed_at, status.expired_at) == (None,) * 3


class TestARunThatFailed:
    REFUSED = failure(Reason.SERVER_UNAUTHORIZED, "The server refuses the API key.")

    def test_it_fails_with_its_own_reason_though_all_that_proved_it_is_gone(self) -> None:
        run = job("run", 1).ended_pod(self.REFUSED, code=25).failed("PodFailurePolicy")
        failing = after(batchjob().planned().with_job(run))
        status = status_of(replace(failing, jobs=(closing(Undone.FAILED).ended_pod(CLOSED),)))
        assert end_of(status)[0] == "ServerUnauthorized"
        assert end_of(status)[1].startswith("The server refuses the API key. 1000 of 4000 requests completed")

    def test_it_is_made_anew_where_its_job_is_deleted_before_it_is_closed(self) -> None:
        assert created(plan_for(batchjob().planned().with_status(phase=Phase.FINALIZING))) == ["run-1"]

    def test_a_merge_that_found_nothing_committed_is_followed_by_one_that_takes_the_segments(self) -> None:
        nothing = ShardsMissingReport(count=4, shards="0-3")
        merged = job("merge", 1).ended_pod(nothing, code=26).failed("PodFailurePolicy")
        builder = batchjob().planned().with_job(job("run", 1).failed("FailedIndexes"), merged)
        assert failing_with(status_of(builder))[0] == "RunFailed"
        assert created(plan_for(after(builder))) == ["merge-1-2"]
