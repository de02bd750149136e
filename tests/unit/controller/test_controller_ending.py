"""Suspending and the end, and what is told about them."""

from dataclasses import replace
from typing import Any

import pytest

from batchwright.api.conditions import ConditionType, Phase
from batchwright.controller.core import conditions
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    DeleteJob,
    Plan,
    SuspendJob,
)
from builders import IDENTITY, BatchJobBuilder, ago, batchjob, job
from fixtures.reconciling import MERGED, PLANNED, created, plan_for, status_of


class TestSuspend:
    @pytest.mark.parametrize(
        "builder",
        [
            batchjob(),
            batchjob().with_job(job("plan").ended_pod(PLANNED).complete()),
            batchjob().planned().with_job(job("run", 1).complete()),
        ],
        ids=["before the plan", "before the run", "before the merge"],
    )
    def test_no_stage_begins_while_suspended(self, builder: BatchJobBuilder) -> None:
        plan = plan_for(builder.suspended())
        assert created(plan) == []
        assert plan.status is not None
        assert conditions.is_true(plan.status, ConditionType.SUSPENDED)

    def test_a_running_job_is_suspended_and_resumed(self) -> None:
        running = batchjob().planned().with_job(job("run", 1).running_pod())
        suspends = [action for action in plan_for(running.suspended()).actions if isinstance(action, SuspendJob)]
        assert [action.suspended for action in suspends] == [True]
        paused = batchjob().planned().with_job(job("run", 1).with_(suspended=True, suspended_by_us=True))
        resumes = [action for action in plan_for(paused).actions if isinstance(action, SuspendJob)]
        assert [action.suspended for action in resumes] == [False]

    def test_a_job_that_somebody_else_suspended_is_left_alone(self) -> None:
        queued = batchjob().planned().with_job(job("run", 1).with_(suspended=True, queue_name="batch"))
        plan = plan_for(queued)
        assert not any(isinstance(action, SuspendJob) for action in plan.actions)
        assert plan.status is not None
        assert plan.status.message is not None
        assert "queue batch" in plan.status.message

    def test_under_kueue_a_running_job_is_deleted_since_kueue_would_resume_it(self) -> None:
        running = batchjob().suspended().planned().with_job(job("run", 1).with_(queue_name="batch").running_pod())
        assert [type(action) for action in plan_for(running).actions if not isinstance(action, CreateConfigMap)] == [
            DeleteJob
        ]


class TestTheEnd:
    FINISHED = batchjob().planned().with_job(job("run", 1).complete(), job("merge", 1).ended_pod(MERGED).complete())

    def finished(self) -> BatchJobBuilder:
        return self.FINISHED.with_status(**dict(status_of(self.FINISHED)))

    @pytest.mark.parametrize(
        "change",
        [
            lambda builder: builder,
            lambda builder: builder.cancelled(),
            lambda builder: builder.suspended(),
            lambda builder: replace(builder, jobs=()),
            lambda builder: builder.with_(spec=None, spec_error="broken"),
            lambda builder: builder.with_spec(completionWindow="1s"),
        ],
    )
    def test_a_finished_batchjob_stays_as_it_ended(self, change: Any) -> None:
        assert plan_for(change(self.finished())).changes_nothing

    def test_a_newer_spec_is_only_taken_note_of(self) -> None:
        newer = replace(self.finished(), identity=replace(IDENTITY, generation=5))
        plan = plan_for(newer)
        assert plan.actions == ()
        assert plan.notices == ()
        assert plan.status is not None
        assert plan.status.observed_generation == 5
        assert {item.observed_generation for item in plan.status.conditions or []} == {5}
        assert plan.status.phase is Phase.COMPLETED

    def test_a_batchjob_that_is_being_deleted_is_left_to_garbage_collection(self) -> None:
        gone = replace(batchjob(), identity=replace(IDENTITY, deleting=True))
        assert plan_for(gone) == Plan()


class TestNotices:
    def test_a_transition_is_told_once(self) -> None:
        builder = batchjob().with_job(job("plan").running_pod())
        plan = plan_for(builder)
        assert [(notice.severity, notice.reason) for notice in plan.notices] == [("Normal", "ValidationStarted")]
        assert plan.status is not None
        assert plan_for(builder.with_status(**dict(plan.status))).notices == ()

    def test_a_standstill_and_its_end_are_told(self) -> None:
        stuck = batchjob().with_job(job("plan").pod(unschedulable="no room", created_at=ago(minutes=3)))
        plan = plan_for(stuck)
        assert ("Warning", "PodsNotStarting") in [(notice.severity, notice.reason) for notice in plan.notices]
        assert plan.status is not None
        after = plan_for(batchjob().with_status(**dict(plan.status)).with_job(job("plan").running_pod()))
        assert [notice.reason for notice in after.notices] == ["ValidationStarted", "NoLongerStalled"]
