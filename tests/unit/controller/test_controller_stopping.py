"""The course of a stop, whoever asked for it: what is finished is published by a closing merge."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import FailureReport
from batchwright.api.status import (
    RequestCounts,
)
from batchwright.api.undone import Undone
from batchwright.controller.core import conditions
from batchwright.controller.core.observed import Refusal
from batchwright.controller.core.plan_of_actions import CreateConfigMap, CreateJob, Plan
from batchwright.controller.settings import Settings
from builders import NOW, BatchJobBuilder, JobBuilder, ago, batchjob, config_map, job
from fixtures.reconciling import MERGED, PLANNED, after, created, failure, plan_for, status_of
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
