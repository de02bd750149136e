"""The run stage."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import (
    Progress,
)
from batchwright.api.status import (
    RequestCounts,
    ShardCounts,
)
from batchwright.controller.core import conditions
from batchwright.controller.core.plan_of_actions import (
    CreateJob,
    DeleteJob,
    MarkPodFailed,
    SuspendJob,
)
from builders import NOW, JobBuilder, ago, batchjob, job
from fixtures.reconciling import after, created, failed_with, failing_with, failure, plan_for, status_of


class TestRunning:
    def test_progress_is_published(self) -> None:
        reports = [Progress(index=index, run=1, completed=500, failed=5, shards_completed=1) for index in range(2)]
        run = job("run", 1).with_(completions=2).running_pod(index=0).running_pod(index=1)
        builder = batchjob().planned().with_job(run).with_progress(*reports)
        status = status_of(builder.with_samples((ago(seconds=10), 510), (NOW, 1010)))
        assert status.request_counts == RequestCounts(total=4000, completed=1000, failed=10)
        assert (status.progress, status.rate, status.eta) == ("1010/4000", "50/s", "60s")
        assert status.shards == ShardCounts(total=4, completed=2)

    def test_a_run_is_suspended_also_while_the_spec_cannot_be_used(self) -> None:
        run = job("run", 1).running_pod(index=0)
        builder = batchjob().planned().with_job(run).with_spec(worker={"volumes": [{"name": "batchwright-x"}]})
        assert plan_for(builder).actions == ()
        suspended = plan_for(builder.suspended())
        assert suspended.actions == (SuspendJob(run.view.name, run.view.uid, suspended=True),)
        assert suspended.status is not None
        assert conditions.is_true(suspended.status, ConditionType.SUSPENDED)

    def test_a_job_that_does_not_start_is_made_anew_once_the_spec_is_mended(self) -> None:
        run = job("run", 1).waiting_pod("ImagePullBackOff", "no such image").with_(completions=4)
        stuck = batchjob().planned().with_job(run)
        made_from = next(action for action in plan_for(batchjob().planned()).actions if isinstance(action, CreateJob))
        template = made_from.manifest["metadata"]["annotations"]["batchwright.dev/template"]
        same = batchjob().planned().with_job(run.with_(template=template))
        assert not any(isinstance(action, DeleteJob) for action in plan_for(same).actions)
        mended = same.with_spec(worker={"image": "there:1"})
        (deletion,) = (action for action in plan_for(mended).actions if isinstance(action, DeleteJob))
        assert deletion.uid == run.view.uid
        started = mended.with_(pods=run.running_pod().pods)
        assert not any(isinstance(action, DeleteJob) for action in plan_for(started).actions)
        assert created(plan_for(stuck)) == []

    def test_progress_alone_is_written_only_every_other_second(self) -> None:
        run = batchjob().planned().with_job(job("run", 1).running_pod(index=0)).with_progress(Progress(index=0, run=1))
        settled = run.with_status(**dict(status_of(run)))
        further = settled.with_progress(Progress(index=0, run=1, completed=7))
        assert plan_for(further.with_(last_status_write=ago(seconds=1))).status is None
        wait = plan_for(further.with_(last_status_write=ago(seconds=1))).wait
        assert wait is not None
        assert wait.after == timedelta(seconds=1)
        assert plan_for(further.with_(last_status_write=ago(seconds=2))).status is not None

    @pytest.mark.parametrize(
        ("pod", "reports", "available"),
        [
            ({}, [], None),
            ({"ready": False, "started_at": ago(hours=1)}, [], None),
            ({"ready": False, "started_at": ago(hours=1)}, [Progress(index=0, run=1)], True),
            ({}, [Progress(index=0, run=1)], True),
            ({}, [Progress(index=0, run=1, server_available=False, server_message="refused")], False),
            ({}, [Progress(index=1, run=1, server_available=False)], None),
        ],
        ids=["unheard", "not ready", "says well, not ready", "says well", "says away", "a worker that runs no more"],
    )
    def test_the_server_is_away_when_all_workers_say_so(
        self, pod: dict[str, Any], reports: list[Progress], available: bool | None
    ) -> None:
        run = job("run", 1).running_pod(index=0, **pod)
        status = status_of(batchjob().planned().with_job(run).with_progress(*reports))
        condition = conditions.find(status, ConditionType.SERVER_AVAILABLE)
        assert (condition and condition.status) == {True: "True", False: "False", None: None}[available]

    def test_what_an_outage_costs_is_said_as_it_is(self) -> None:
        away = Progress(index=0, run=1, server_available=False, server_message="refused")
        running = batchjob().planned().with_job(job("run", 1).running_pod(index=0)).with_progress(away)
        assert "No request fails for it" in (status_of(running).message or "")
        asking = job("plan").ended_pod(failure(Reason.SERVER_UNREACHABLE, "refused", final=False), code=1)
        assert "No request has been sent" in (status_of(batchjob().with_job(asking)).message or "")

    def test_an_outage_has_its_reason_and_its_beginning(self) -> None:
        first, second = (
            Progress(index=index, run=1, server_available=False, server_since=since, server_message=f"said by {index}")
            for index, since in enumerate([ago(minutes=1), ago(minutes=5)])
        )
        run = job("run", 1).running_pod(index=0).running_pod(index=1)
        status = status_of(batchjob().planned().with_job(run).with_progress(first, second))
        condition = conditions.find(status, ConditionType.SERVER_AVAILABLE)
        assert condition
        assert condition.reason == Reason.SERVER_AWAY
        assert condition.message.startswith(
            f"The model server is away since {ago(minutes=5):%Y-%m-%dT%H:%M:%SZ}: said by 1."
        )

    @pytest.mark.parametrize("reason", [Reason.SERVER_UNAUTHORIZED, Reason.MODEL_NOT_FOUND])
    @pytest.mark.parametrize(("minutes", "stalled"), [(1, False), (3, True)])
    def test_a_server_that_refuses_us_for_long_is_for_a_person(
        self, reason: Reason, minutes: int, stalled: bool
    ) -> None:
        away = Progress(
            index=0,
            run=1,
            server_available=False,
            server_reason=reason,
            server_since=ago(minutes=minutes),
            server_message="it says no",
        )
        run = job("run", 1).running_pod(index=0)
        status = status_of(batchjob().planned().with_job(run).with_progress(away))
        assert conditions.is_true(status, ConditionType.STALLED) == stalled
        condition = conditions.find(status, ConditionType.SERVER_AVAILABLE)
        assert condition
        assert (condition.status, condition.reason) == ("False", reason)
        assert "it says no." in (status.message or "")

    def test_a_server_that_is_only_away_is_not_for_a_person(self) -> None:
        away = Progress(index=0, run=1, server_available=False, server_since=ago(hours=9))
        status = status_of(batchjob().planned().with_job(job("run", 1).running_pod(index=0)).with_progress(away))
        assert not conditions.is_true(status, ConditionType.STALLED)

    @pytest.mark.parametrize(
        ("started", "said", "available"),
        [
            (ago(minutes=9), ago(minutes=4), False),
            (ago(minutes=9), ago(minutes=6), None),
            (ago(minutes=1), ago(minutes=2), None),
        ],
        ids=["lately", "long ago", "by the pod before it"],
    )
    def test_what_a_worker_said_of_the_server_holds_for_a_while(
        self, started: datetime, said: datetime, available: bool | None
    ) -> None:
        run = job("run", 1).running_pod(index=0, started_at=started)
        away = Progress(index=0, run=1, server_available=False)
        status = status_of(batchjob().planned().with_job(run).with_progress(away, at=said))
        condition = conditions.find(status, ConditionType.SERVER_AVAILABLE)
        assert (condition and condition.status) == {False: "False", None: None}[available]

    def test_one_worker_that_reaches_the_server_is_enough(self) -> None:
        run = job("run", 1).running_pod(index=0).running_pod(index=1)
        away = Progress(index=0, run=1, server_available=False)
        status = status_of(batchjob().planned().with_job(run).with_progress(away, Progress(index=1, run=1)))
        assert conditions.is_true(status, ConditionType.SERVER_AVAILABLE)

    def test_a_run_that_was_deleted_is_made_anew(self) -> None:
        assert created(plan_for(batchjob().planned())) == ["run-1"]

    def test_a_run_that_was_deleted_is_made_anew_once_its_workers_are_gone(self) -> None:
        leaving = job("run", 1).running_pod(index=0, delete_by=ago(seconds=-60))
        deleted = batchjob().planned().with_(pods=leaving.pods)
        assert created(plan_for(deleted)) == []
        assert "once its pods have ended (1 left)" in (status_of(deleted).message or "")
        ended = [replace(pod, phase="Failed") for pod in leaving.pods]
        for_ever = [replace(pod, delete_by=ago(minutes=11)) for pod in leaving.pods]
        for gone in ended, for_ever:
            assert created(plan_for(batchjob().planned().with_(pods=tuple(gone)))) == ["run-1"]

    @pytest.mark.parametrize(
        "ended",
        [
            job("run", 1).complete(),
            job("run", 1).failed("FailedIndexes"),
            job("run", 1).ended_pod(None, code=1).failed("FailedIndexes"),
        ],
    )
    def test_workers_that_are_done_are_merged_even_if_some_failed(self, ended: JobBuilder) -> None:
        plan = plan_for(batchjob().planned().with_job(ended))
        assert created(plan) == ["merge-1"]
        assert plan.status is not None
        assert plan.status.phase is Phase.FINALIZING

    def test_what_no_retry_can_mend_ends_the_batchjob_with_what_is_finished(self) -> None:
        changed = failure(Reason.INPUT_CHANGED, "the input's ETag is another")
        run = job("run", 1).ended_pod(changed, code=22).failed("PodFailurePolicy")
        builder = batchjob().planned().with_job(run)
        assert failing_with(status_of(builder)) == ("InputChanged", "the input's ETag is another")
        assert created(plan_for(after(builder))) == ["merge-1"]

    def test_where_the_plan_cannot_be_read_nothing_can_be_published(self) -> None:
        unreadable = failure(Reason.PLAN_UNREADABLE, "its format is 9")
        run = job("run", 1).ended_pod(unreadable, code=23).failed("PodFailurePolicy")
        status = status_of(batchjob().planned().with_job(run))
        assert failed_with(status) == ("PlanUnreadable", "its format is 9")

    def test_workers_that_cannot_start_are_a_standstill(self) -> None:
        run = job("run", 1).pod(unschedulable="Insufficient cpu", created_at=ago(minutes=3))
        status = status_of(batchjob().planned().with_job(run))
        assert status.phase is Phase.IN_PROGRESS
        assert conditions.is_true(status, ConditionType.STALLED)

    def test_a_job_that_the_api_refuses_is_a_standstill_and_is_tried_again(self) -> None:
        builder = batchjob().planned().refused("Job x", "exceeded quota: small", ago(minutes=1))
        plan = plan_for(builder)
        assert created(plan) == ["run-1"]
        assert plan.status is not None
        stalled = conditions.find(plan.status, ConditionType.STALLED)
        assert stalled is not None
        assert stalled.reason == "JobRefused"
        assert "exceeded quota: small" in stalled.message


class TestLostNodes:
    LOST = job("run", 1).running_pod(node="node-2", delete_by=ago(minutes=1)).running_pod(node="node-1")

    @pytest.mark.parametrize(
        ("nodes", "marked"),
        [({"node-2": False}, True), ({"node-2": True}, False), ({}, False)],
        ids=["not ready", "ready", "unknown"],
    )
    def test_a_pod_that_should_have_ended_on_a_lost_node_is_marked(self, nodes: dict[str, bool], marked: bool) -> None:
        builder = batchjob().planned().with_job(self.LOST).with_(nodes_ready=nodes)
        marks = [action for action in plan_for(builder).actions if isinstance(action, MarkPodFailed)]
        assert [mark.name for mark in marks] == ([self.LOST.pods[0].name] if marked else [])

    def test_its_node_is_looked_at_although_only_progress_was_to_be_asked_for(self) -> None:
        wait = plan_for(batchjob().planned().with_job(self.LOST)).wait
        assert wait is not None
        assert wait.refresh

    def test_it_gets_its_grace_period_and_a_margin(self) -> None:
        young = job("run", 1).running_pod(node="node-2", delete_by=ago(seconds=20))
        builder = batchjob().planned().with_job(young).with_(nodes_ready={"node-2": False})
        assert not any(isinstance(action, MarkPodFailed) for action in plan_for(builder).actions)
