"""Cancel, the end of the completion window, too many failures, a run that failed: what is finished is published."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import FailureReport, MergeProgress, MergeReport, Progress, ShardsMissingReport
from batchwright.api.status import (
    BatchJobStatus,
    Condition,
    Metrics,
    PublishedObject,
    RequestCounts,
    ShardCounts,
    Usage,
)
from batchwright.api.undone import Undone
from batchwright.controller.core import conditions
from batchwright.controller.core.observed import Refusal
from batchwright.controller.core.plan_of_actions import CreateConfigMap, CreateJob, DeleteJob, Plan
from batchwright.controller.settings import Settings
from builders import IDENTITY, NOW, BatchJobBuilder, JobBuilder, ago, batchjob, config_map, job
from fixtures.reconciling import MERGED, PLANNED, after, created, failing_with, failure, plan_for, status_of

RUNNING = job("run", 1).running_pod(index=0)
ENDED_RUN = job("run", 1).complete()
WINDOW = {"completionWindow": "30s"}
"""It ended half a minute ago."""
CLOSED = MergeReport(
    request_counts=RequestCounts(total=4000, completed=1000, failed=3000),
    usage=Usage(total_tokens=10),
    finish_reasons={"stop": 1000},
    error_codes={"batch_cancelled": 2900, "400": 90, "500": 10},
    output=PublishedObject(uri="s3://b/out/results.jsonl", bytes=9, lines=1000),
    errors=PublishedObject(uri="s3://b/out/errors.jsonl", bytes=9, lines=3000),
    retry=PublishedObject(uri="s3://b/out/retry.jsonl", bytes=9, lines=3000),
)
MISSING = ShardsMissingReport(count=1, shards="3")


def closing(undone: Undone, attempt: int = 1) -> JobBuilder:
    """A merge that closes a stopped BatchJob."""
    return job("merge", 1, attempt).with_(undone=undone)


def targeted(builder: BatchJobBuilder, reason: Reason, message: str = "Why.") -> BatchJobBuilder:
    """A BatchJob of which it is written down what it ends as."""
    target = Condition(
        type="FailureTarget",
        status="True",
        reason=reason.value,
        message=message,
        observed_generation=1,
        last_transition_time=ago(seconds=5),
    )
    return builder.with_status(conditions=[target])


def cancelling(*jobs: JobBuilder) -> BatchJobBuilder:
    """A BatchJob whose cancel was seen before."""
    known = batchjob().cancelled().planned().with_status(phase=Phase.CANCELLING, cancelling_at=ago(seconds=10))
    return targeted(known, Reason.CANCELLED).with_job(*jobs)


def deleted(plan: Plan) -> list[str]:
    """UIDs of the Jobs that are deleted."""
    return [action.uid for action in plan.actions if isinstance(action, DeleteJob)]


def closing_arguments(plan: Plan) -> list[str]:
    """The arguments of the merge that is created."""
    (manifest,) = (action.manifest for action in plan.actions if isinstance(action, CreateJob))
    arguments: list[str] = manifest["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def reconciling(status: BatchJobStatus) -> str:
    condition = conditions.find(status, ConditionType.RECONCILING)
    assert condition is not None
    return condition.reason


def end_of(status: BatchJobStatus) -> tuple[str, str]:
    """Reason and message of the condition Failed."""
    condition = conditions.find(status, ConditionType.FAILED)
    assert condition is not None
    assert condition.status == "True"
    return condition.reason, condition.message


STOPS = [
    pytest.param(batchjob().cancelled(), Undone.CANCELLED, Phase.CANCELLING, Phase.CANCELLED, "Cancelled", id="cancel"),
    pytest.param(
        batchjob().with_spec(**WINDOW), Undone.EXPIRED, Phase.FINALIZING, Phase.EXPIRED, "Expired", id="expiry"
    ),
    pytest.param(
        batchjob().with_spec(requests={"maxFailures": 0}),
        Undone.FAILED,
        Phase.FINALIZING,
        Phase.FAILED,
        "TooManyFailures",
        id="too many failures",
    ),
]
REASONS = {Undone.CANCELLED: "Cancelling", Undone.EXPIRED: "Expiring", Undone.FAILED: "Failing"}


@pytest.mark.parametrize(("builder", "undone", "phase", "end", "reason"), STOPS)
class TestTheCourseOfAStop:
    def stopped(self, builder: BatchJobBuilder) -> BatchJobBuilder:
        counts = RequestCounts(total=4000, completed=900, failed=90)
        return builder.planned().with_status(request_counts=counts, rate="9/s", eta="3m")

    def test_the_workers_stop_first(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        plan = plan_for(self.stopped(builder).with_job(RUNNING))
        assert (created(plan), deleted(plan)) == ([], [RUNNING.view.uid])
        assert plan.status is not None
        assert (plan.status.phase, reconciling(plan.status)) == (phase, REASONS[undone])
        assert (plan.status.rate, plan.status.eta) == (None, None)

    def test_their_pods_are_waited_for(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        pods = job("run", 1).running_pod(delete_by=NOW + timedelta(seconds=9)).running_pod(delete_by=NOW).pods
        draining = self.stopped(builder).with_(pods=pods)
        assert created(plan_for(draining)) == []
        assert "2 workers have at most 3m30s" in (status_of(draining).message or "")

    def test_then_it_is_written_down_what_it_ends_as(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        plan = plan_for(self.stopped(builder))
        assert created(plan) == []
        assert plan.status is not None
        target = conditions.find(plan.status, ConditionType.FAILURE_TARGET)
        assert target is not None
        assert (target.status, target.reason) == ("True", reason)
        assert plan.wait is not None
        assert plan.wait.after <= timedelta(seconds=1)

    def test_then_a_merge_closes_the_batch(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        targeted = after(self.stopped(builder))
        plan = plan_for(targeted)
        assert created(plan) == ["merge-1"]
        assert closing_arguments(plan)[-2:] == ["--undone", undone.value]
        assert (targeted.status.phase, reconciling(targeted.status)) == (phase, REASONS[undone])

    def test_it_ends_with_what_is_finished(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        merge = closing(undone).ended_pod(CLOSED)
        status = status_of(after(self.stopped(builder)).with_job(merge))
        assert (status.phase, end_of(status)[0]) == (end, reason)
        assert status.request_counts == CLOSED.request_counts
        assert (status.output, status.errors, status.retry) == (CLOSED.output, CLOSED.errors, CLOSED.retry)
        assert (status.error_codes, status.finish_reasons) == (CLOSED.error_codes, CLOSED.finish_reasons)
        assert status.usage == CLOSED.usage
        assert status.progress == "1100/4000"
        assert not conditions.is_true(status, ConditionType.RECONCILING)

    def test_when_the_merge_fails_the_end_is_the_same_and_says_so(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        denied = failure(Reason.STORAGE_ACCESS_DENIED, "s3:PutObject is denied.")
        merge = closing(undone).ended_pod(denied, code=21)
        status = status_of(after(self.stopped(builder)).with_job(merge))
        assert (status.phase, end_of(status)[0]) == (end, reason)
        assert "Nothing could be published: s3:PutObject is denied. What is finished is kept." in end_of(status)[1]
        assert status.request_counts == RequestCounts(total=4000, completed=900, failed=90)

    def test_the_merge_is_not_waited_for_without_end(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        merge = closing(undone).failed("DeadlineExceeded")
        status = status_of(after(self.stopped(builder)).with_job(merge))
        assert (status.phase, end_of(status)[0]) == (end, reason)
        assert "BATCHWRIGHT_MERGE_DEADLINE" in end_of(status)[1]

    def test_suspending_holds_no_stop_up(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        suspended = self.stopped(builder.suspended())
        paused = job("run", 1).with_(suspended=True, suspended_by_us=True)
        assert deleted(plan_for(suspended.with_job(paused))) == [paused.view.uid]
        assert created(plan_for(after(suspended))) == ["merge-1"]

    def test_a_job_in_kueues_queue_is_deleted_as_well(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        queued = job("run", 1).with_(suspended=True, queue_name="batch")
        plan = plan_for(self.stopped(builder.with_spec(queueName="batch")).with_job(queued))
        assert deleted(plan) == [queued.view.uid]
        closed = plan_for(after(self.stopped(builder)))
        (merge,) = (action for action in closed.actions if isinstance(action, CreateJob))
        assert "kueue.x-k8s.io/queue-name" not in merge.manifest["metadata"]["labels"]

    def test_it_is_told_once(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        running = self.stopped(builder).with_job(RUNNING).with_status(phase=Phase.IN_PROGRESS)
        assert [notice.reason for notice in plan_for(running).notices] == [REASONS[undone]]
        closed = after(replace(after(running), jobs=()))
        closed = replace(closed, jobs=(closing(undone).running_pod(),))
        assert plan_for(closed).notices == ()
        ended = plan_for(replace(after(closed), jobs=(closing(undone).ended_pod(CLOSED),)))
        assert [notice.severity for notice in ended.notices] == ["Warning"]

    def test_a_pass_that_sees_the_same_changes_nothing(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        draining = self.stopped(builder).with_job(RUNNING.with_(deleting=True))
        assert plan_for(after(draining)).changes_nothing
        assert plan_for(after(self.stopped(builder))).status is None
        merging = after(self.stopped(builder)).with_job(closing(undone).running_pod())
        (config,) = (action for action in plan_for(merging).actions if isinstance(action, CreateConfigMap))
        there = after(merging).with_(config_map=config_map(config.manifest["data"]))
        assert plan_for(there).changes_nothing


@pytest.mark.parametrize(("builder", "undone", "phase", "end", "reason"), STOPS[:2])
class TestAStopBeforeTheRun:
    def test_without_a_plan_no_request_was_sent_and_nothing_is_published(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        planning = builder.with_job(job("plan").pod(unschedulable="no room", created_at=ago(minutes=3)))
        plan = plan_for(planning)
        assert (created(plan), deleted(plan)) == ([], ["uid-plan-0-1"])
        assert plan.status is not None
        assert reconciling(plan.status) == REASONS[undone]
        status = status_of(after(planning).with_(jobs=(), pods=()))
        assert (status.phase, end_of(status)[0]) == (end, reason)
        assert "No request was sent" in end_of(status)[1]
        assert status.finalizing_at is None

    def test_a_plan_that_has_just_ended_is_taken_over(
        self, builder: BatchJobBuilder, undone: Undone, phase: Phase, end: Phase, reason: str
    ) -> None:
        planned = builder.with_job(job("plan").ended_pod(PLANNED).complete())
        plan = plan_for(planned)
        assert plan.status is not None
        assert created(plan_for(after(planned))) == ["merge-1"]
        assert plan.status.fingerprint == "f00d"
        assert plan.status.in_progress_at is None


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


class TestTheClosingMerge:
    """What can come between."""

    UNAWARE = FailureReport(reason=Reason.UNEXPECTED, final=False, message="unrecognized arguments: --undone")

    @pytest.mark.parametrize(
        ("merge", "next_one"),
        [
            (closing(Undone.CANCELLED).complete(), ["merge-1-2"]),
            (closing(Undone.CANCELLED).ended_pod(MISSING, code=26).failed(), ["merge-1-2"]),
            (closing(Undone.CANCELLED).running_pod().with_(deleting=True), []),
            (job("merge", 1).complete(), ["merge-1-2"]),
            (closing(Undone.CANCELLED, attempt=3).complete(), []),
            (closing(Undone.CANCELLED, attempt=3).ended_pod(MISSING, code=26).failed(), []),
        ],
        ids=["no word", "misses shards", "deleted by hand", "another kind without a word", "spent", "misses for ever"],
    )
    def test_attempts_count_on_over_both_kinds(self, merge: JobBuilder, next_one: list[str]) -> None:
        assert created(plan_for(cancelling(ENDED_RUN, merge))) == next_one

    def test_the_last_attempt_is_the_end(self) -> None:
        status = status_of(cancelling(closing(Undone.CANCELLED, attempt=3).complete()))
        assert status.phase is Phase.CANCELLED
        assert "Nothing could be published" in end_of(status)[1]

    def test_an_evicted_pod_is_followed_by_another_of_the_same_job(self) -> None:
        evicted = closing(Undone.CANCELLED).pod(phase="Failed").running_pod()
        plan = plan_for(cancelling(evicted))
        assert (created(plan), deleted(plan)) == ([], [])
        assert plan.status is not None
        assert plan.status.phase is Phase.CANCELLING

    def test_a_run_that_is_deleted_by_hand_meanwhile_changes_nothing(self) -> None:
        assert created(plan_for(cancelling(RUNNING.with_(deleting=True)))) == []
        assert created(plan_for(cancelling())) == ["merge-1"]

    def test_what_a_worker_image_of_another_version_says_is_told(self) -> None:
        merge = closing(Undone.CANCELLED).ended_pod(self.UNAWARE, code=1).failed("BackoffLimitExceeded")
        assert "unrecognized arguments" in end_of(status_of(cancelling(merge)))[1]

    def test_one_that_cannot_start_says_why_and_a_mended_spec_starts_it(self) -> None:
        template = closing_template(plan_for(cancelling()))
        stuck = closing(Undone.CANCELLED).pod(unschedulable="no room", created_at=ago(minutes=3))
        builder = cancelling(stuck.with_(template=template))
        assert deleted(plan_for(builder)) == []
        status = status_of(builder)
        assert conditions.is_true(status, ConditionType.STALLED)
        assert "no room" in (status.message or "")
        mended = builder.with_spec(worker={"nodeSelector": {"pool": "other"}})
        assert deleted(plan_for(mended)) == [stuck.view.uid]

    def test_one_that_the_api_server_refuses_for_too_long_is_given_up(self) -> None:
        refused = cancelling().refused("Job x", "exceeded quota", ago(seconds=1))
        assert created(plan_for(refused)) == ["merge-1"]
        hurried = Settings(merge_deadline=timedelta(seconds=5))
        status = status_of(refused, hurried)
        assert status.phase is Phase.CANCELLED
        assert "exceeded quota" in end_of(status)[1]

    def test_the_time_for_it_begins_with_the_target_however_long_it_was_finalizing(self) -> None:
        finalizing = targeted(batchjob().planned().with_status(finalizing_at=ago(hours=9)), Reason.EXPIRED)
        refused = finalizing.with_job(ENDED_RUN).refused("Job x", "exceeded quota", ago(seconds=1))
        assert created(plan_for(refused)) == ["merge-1"]

    @pytest.mark.parametrize("builder", [cancelling(RUNNING), batchjob().cancelled().with_job(job("plan").pod())])
    def test_a_job_that_may_not_be_deleted_is_told(self, builder: BatchJobBuilder) -> None:
        refusal = Refusal("Job x", "a policy keeps it", ago(minutes=1), "deleted")
        status = status_of(builder.with_(refusals=(refusal,)))
        assert status.phase is Phase.CANCELLING
        stalled = conditions.find(status, ConditionType.STALLED)
        assert stalled is not None
        assert (stalled.status, stalled.reason) == ("True", "JobRefused")
        assert "Job x can't be deleted: a policy keeps it" in (status.message or "")

    @pytest.mark.parametrize(("minutes", "waits"), [(9, True), (11, False)])
    def test_a_pod_that_never_ends_is_waited_for_so_long(self, minutes: int, waits: bool) -> None:
        pods = job("run", 1).running_pod(delete_by=ago(minutes=minutes)).pods
        assert created(plan_for(cancelling().with_(pods=pods))) == ([] if waits else ["merge-1"])

    def test_a_configuration_that_is_gone_is_made_anew(self) -> None:
        plan = plan_for(cancelling())
        assert [type(action) for action in plan.actions] == [CreateConfigMap, CreateJob]


class TestASpecThatCannotBeUsed:
    VOLUME: ClassVar = {"worker": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]}}
    NO_SERVER: ClassVar = {"server": None}

    def test_no_pod_is_made_from_it(self) -> None:
        plan = plan_for(cancelling().with_spec(**self.VOLUME))
        assert created(plan) == []
        assert plan.status is not None
        assert plan.status.phase is Phase.CANCELLED
        assert "volumes of the node are not allowed" in end_of(plan.status)[1]

    def test_a_server_is_not_needed_to_publish_what_is_finished(self) -> None:
        builder = cancelling().with_spec(**self.NO_SERVER)
        assert created(plan_for(builder.with_(config_map=config_map()))) == ["merge-1"]
        assert status_of(builder).phase is Phase.CANCELLED

    def test_a_merge_that_works_already_goes_on(self) -> None:
        builder = cancelling(closing(Undone.CANCELLED).running_pod()).with_spec(**self.VOLUME)
        assert status_of(builder).phase is Phase.CANCELLING

    @pytest.mark.parametrize("spec", [VOLUME, NO_SERVER])
    @pytest.mark.parametrize("cancel", [False, True])
    @pytest.mark.parametrize(
        ("builder", "end"),
        [
            (batchjob().planned(), Phase.COMPLETED),
            (targeted(batchjob().planned(), Reason.RUN_FAILED), Phase.FAILED),
        ],
    )
    def test_what_is_published_already_ends_it(
        self, builder: BatchJobBuilder, end: Phase, cancel: bool, spec: dict[str, Any]
    ) -> None:
        merged = builder.with_job(ENDED_RUN, job("merge", 1).ended_pod(MERGED)).with_spec(**spec, cancel=cancel)
        assert status_of(merged).phase is end

    def test_one_that_was_never_usable_fails_with_what_is_wrong(self) -> None:
        assert status_of(batchjob().cancelled().with_spec(**self.VOLUME)).phase is Phase.FAILED


def closing_template(plan: Plan) -> str:
    (manifest,) = (action.manifest for action in plan.actions if isinstance(action, CreateJob))
    template: str = manifest["metadata"]["annotations"]["batchwright.dev/template"]
    return template
