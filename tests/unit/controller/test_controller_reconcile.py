"""From what is to what is to be done, stage by stage."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import (
    FailureReport,
    InterruptedReport,
    MergeReport,
    PlanReport,
    Progress,
    ShardsMissingReport,
)
from batchwright.api.status import (
    BatchJobStatus,
    PublishedObject,
    RequestCounts,
    ShardCounts,
    Usage,
    ValidationError,
)
from batchwright.controller.core import conditions
from batchwright.controller.core.observed import JobEnd
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    MarkPodFailed,
    Plan,
    SuspendJob,
    UpdateConfigMap,
)
from batchwright.controller.core.reconcile import reconcile
from batchwright.controller.settings import Settings
from builders import IDENTITY, NOW, BatchJobBuilder, JobBuilder, ago, batchjob, config_map, job

SETTINGS = Settings()
PLANNED = PlanReport(
    fingerprint="f00d", plan_uri="s3://b/plan", lines=4000, shards=4, endpoint="/v1/completions", model="m"
)
MERGED = MergeReport(
    request_counts=RequestCounts(total=4000, completed=3990, failed=10),
    usage=Usage(input_tokens=7, output_tokens=3, total_tokens=10),
    finish_reasons={"stop": 3990},
    error_codes={"400": 10},
    output=PublishedObject(uri="s3://b/out/results.jsonl", bytes=9, lines=3990),
    errors=PublishedObject(uri="s3://b/out/errors.jsonl", bytes=9, lines=10),
)


def plan_for(builder: BatchJobBuilder, settings: Settings = SETTINGS) -> Plan:
    return reconcile(builder.build(), NOW, settings)


def status_of(builder: BatchJobBuilder, settings: Settings = SETTINGS) -> BatchJobStatus:
    status = plan_for(builder, settings).status
    assert status is not None
    return status


def created(plan: Plan) -> list[str]:
    """The stages whose Jobs are created, such as `run-1`."""
    names = [action.manifest["metadata"]["name"] for action in plan.actions if isinstance(action, CreateJob)]
    return [name.split("-", 2)[2] for name in names]


def failed_with(status: BatchJobStatus) -> tuple[str, str]:
    assert status.phase is Phase.FAILED
    condition = conditions.find(status, ConditionType.FAILED)
    assert condition is not None
    assert condition.status == "True"
    return condition.reason, condition.message


def failure(reason: Reason, message: str = "why", **rest: Any) -> FailureReport:
    return FailureReport(reason=reason, message=message, **rest)


class TestValidating:
    def test_a_new_batchjob_gets_its_configuration_before_its_plan(self) -> None:
        plan = plan_for(batchjob())
        assert [type(action) for action in plan.actions] == [CreateConfigMap, CreateJob]
        assert created(plan) == ["plan"]
        assert plan.status is not None
        assert (plan.status.phase, plan.status.created_at) == (Phase.PENDING, IDENTITY.created_at)

    @pytest.mark.parametrize(
        ("pods", "phase"),
        [
            (job("plan"), Phase.PENDING),
            (job("plan").waiting_pod("ContainerCreating"), Phase.PENDING),
            (job("plan").running_pod(), Phase.VALIDATING),
            (job("plan").ended_pod(failure(Reason.STORAGE_UNREACHABLE, final=False), code=1), Phase.VALIDATING),
        ],
        ids=["no pod", "creating", "running", "between two tries"],
    )
    def test_it_is_pending_until_its_plan_has_started(self, pods: JobBuilder, phase: Phase) -> None:
        assert status_of(batchjob().with_job(pods)).phase is phase

    def test_a_good_plan_starts_the_workers(self) -> None:
        plan = plan_for(batchjob().with_job(job("plan").ended_pod(PLANNED).complete()))
        assert created(plan) == ["run-1"]
        status = plan.status
        assert status is not None
        assert (status.phase, status.fingerprint, status.endpoint, status.model) == (
            Phase.IN_PROGRESS,
            "f00d",
            "/v1/completions",
            "m",
        )
        assert (status.request_counts, status.shards) == (RequestCounts(total=4000), ShardCounts(total=4))
        assert (status.parallelism, status.run) == (4, 1)
        assert conditions.is_true(status, ConditionType.SERVER_AVAILABLE)
        assert status.validating_at is not None
        assert status.in_progress_at is not None

    def test_a_bad_input_fails_with_its_errors(self) -> None:
        error = ValidationError(code="missing_custom_id", line=3, message="custom_id is missing")
        report = failure(
            Reason.INVALID_INPUT,
            "the input has errors",
            validation_errors=(error,),
            validation_error_count=9,
            validation_errors_uri="s3://b/errors",
        )
        status = status_of(batchjob().with_job(job("plan").ended_pod(report, code=20).failed("PodFailurePolicy")))
        assert failed_with(status) == ("InvalidInput", "the input has errors")
        assert status.validation_errors == [error]
        assert (status.validation_error_count, status.validation_errors_uri) == (9, "s3://b/errors")
        assert status.failed_at is not None

    def test_a_failure_that_may_pass_is_shown_while_it_is_tried_again(self) -> None:
        report = failure(Reason.SERVER_UNREACHABLE, "connection refused", final=False)
        status = status_of(batchjob().with_job(job("plan").ended_pod(report, code=1)))
        server = conditions.find(status, ConditionType.SERVER_AVAILABLE)
        assert server is not None
        assert server.status == "False"
        assert "connection refused" in server.message

    AWAY = failure(Reason.SERVER_UNREACHABLE, "connection refused", final=False)

    def test_a_server_that_stays_away_is_asked_again_without_end(self) -> None:
        ended = job("plan").ended_pod(self.AWAY, code=1).failed()
        at_once = plan_for(batchjob().with_job(ended))
        assert not any(isinstance(action, CreateJob | DeleteJob) for action in at_once.actions)
        assert at_once.wait is not None
        assert at_once.wait.after == timedelta(minutes=1)
        assert at_once.status is not None
        assert at_once.status.phase is Phase.VALIDATING
        server = conditions.find(at_once.status, ConditionType.SERVER_AVAILABLE)
        assert server is not None
        assert (server.status, server.reason) == ("False", "ServerAway")
        assert "connection refused" in server.message

        known = batchjob().with_status(**dict(at_once.status))
        later = known.with_job(ended.with_(end=JobEnd(False, ago(minutes=1))))
        deletions = [action.uid for action in plan_for(later).actions if isinstance(action, DeleteJob)]
        assert deletions == [ended.view.uid]
        going = known.with_job(ended.with_(end=JobEnd(False, ago(minutes=1)), deleting=True))
        assert not any(isinstance(action, CreateJob | DeleteJob) for action in plan_for(going).actions)

        anew = plan_for(known)
        assert created(anew) == ["plan"]
        assert anew.status is not None
        assert anew.status.phase is Phase.VALIDATING
        assert conditions.find(anew.status, ConditionType.SERVER_AVAILABLE) == server

    def test_only_the_completion_window_and_a_person_end_the_wait_for_a_server(self) -> None:
        ended = job("plan").ended_pod(self.AWAY, code=1).failed()
        asking = batchjob().with_job(ended).with_status(validating_at=ago(seconds=30), phase=Phase.VALIDATING)
        for stopped in (asking.cancelled(), asking.with_spec(completionWindow="30s")):
            assert [type(action) for action in plan_for(stopped).actions] == [DeleteJob]
        assert created(plan_for(asking.suspended())) == []

    def test_a_plan_that_met_the_server_away_before_it_failed_otherwise_has_failed(self) -> None:
        pods = job("plan").ended_pod(self.AWAY, code=1)
        report = failure(Reason.STORAGE_UNREACHABLE, "no route", final=False)
        status = status_of(batchjob().with_job(pods.ended_pod(report, code=1).failed()))
        assert failed_with(status) == ("StorageUnreachable", "no route")

    @pytest.mark.parametrize(
        ("ended", "expected"),
        [
            (
                job("plan").ended_pod(failure(Reason.STORAGE_UNREACHABLE, "no route", final=False), code=1).failed(),
                ("StorageUnreachable", "no route"),
            ),
            (job("plan").ended_pod(None, code=137, reason="OOMKilled").failed(), ("PlanFailed", "memory")),
            (job("plan").ended_pod(None, code=21).failed(), ("StorageAccessDenied", "exit code 21")),
            (
                job("plan").failed(
                    "PodFailurePolicy", "Container worker for pod demo/p failed with exit code 21 matching FailJob rule"
                ),
                ("StorageAccessDenied", "exit code 21"),
            ),
        ],
        ids=["tried in vain", "out of memory", "no report", "pod is gone"],
    )
    def test_a_plan_that_failed_for_good_says_why(self, ended: JobBuilder, expected: tuple[str, str]) -> None:
        reason, message = failed_with(status_of(batchjob().with_job(ended)))
        assert reason == expected[0]
        assert expected[1] in message

    def test_a_pod_that_was_interrupted_does_not_explain_a_failure(self) -> None:
        pods = job("plan").ended_pod(failure(Reason.STORAGE_UNREACHABLE, "no route", final=False), code=1)
        status = status_of(batchjob().with_job(pods.ended_pod(InterruptedReport(), code=10).failed()))
        assert failed_with(status) == ("StorageUnreachable", "no route")

    def test_a_plan_that_ended_without_a_word_runs_again_at_most_three_times(self) -> None:
        silent = [job("plan", attempt=attempt).complete() for attempt in (1, 2, 3)]
        assert created(plan_for(batchjob().with_job(silent[0]))) == ["plan-2"]
        assert created(plan_for(batchjob().with_job(*silent[:2]))) == ["plan-3"]
        reason, message = failed_with(status_of(batchjob().with_job(*silent)))
        assert reason == "PlanFailed"
        assert "3 times" in message

    def test_a_plan_that_a_person_deletes_is_awaited_and_then_made_anew(self) -> None:
        assert created(plan_for(batchjob().with_job(job("plan").with_(deleting=True)))) == []
        assert created(plan_for(batchjob())) == ["plan"]


class TestSpec:
    def test_a_spec_that_cannot_be_read_fails_naming_the_field(self) -> None:
        builder = batchjob().with_(spec=None, spec_error="spec.server.headers: 'a b' can't be sent")
        reason, message = failed_with(status_of(builder))
        assert reason == "InvalidSpec"
        assert "spec.server.headers" in message
        assert plan_for(builder).actions == ()

    def test_without_a_server_it_fails_and_says_how_to_name_one(self) -> None:
        reason, message = failed_with(status_of(batchjob().with_spec(server=None)))
        assert reason == "InvalidSpec"
        assert "spec.server" in message
        assert "BATCHWRIGHT_DEFAULT_SERVER_URL" in message

    def test_the_operators_default_server_is_taken(self) -> None:
        plan = plan_for(batchjob().with_spec(server=None), Settings(default_server_url="http://default:8000"))
        (config, _) = plan.actions
        assert isinstance(config, CreateConfigMap)
        assert '"serverUrl":"http://default:8000"' in config.manifest["data"]["job.json"]

    def test_a_url_that_cannot_be_used_is_not_repeated(self) -> None:
        settings = Settings(default_server_url="http://user:hunter2@default:8000")
        reason, message = failed_with(status_of(batchjob().with_spec(server=None), settings))
        assert reason == "InvalidSpec"
        assert "spec.server" in message
        assert "hunter2" not in message

    def test_volumes_of_the_node_need_permission(self) -> None:
        builder = batchjob().with_spec(worker={"volumes": [{"name": "data", "hostPath": {"path": "/srv"}}]})
        reason, message = failed_with(status_of(builder))
        assert reason == "InvalidSpec"
        assert "spec.worker.volumes[0].hostPath" in message
        assert created(plan_for(builder, Settings(allow_host_path=True))) == ["plan"]

    @pytest.mark.parametrize(
        ("worker", "field"),
        [
            ({"volumes": [{"name": "batchwright-job", "emptyDir": {}}]}, "spec.worker.volumes[0].name"),
            ({"resources": {"limits": "512Mi"}}, "spec.worker.resources.limits"),
        ],
    )
    def test_what_would_break_the_pod_is_refused(self, worker: dict[str, Any], field: str) -> None:
        assert field in failed_with(status_of(batchjob().with_spec(worker=worker)))[1]

    def test_a_spec_that_breaks_while_requests_run_stops_nothing(self) -> None:
        running = batchjob().planned().with_job(job("run", 1).running_pod())
        plan = plan_for(running.with_(spec=None, spec_error="spec.requests.timeout: too long"))
        assert plan.actions == ()
        assert plan.status is not None
        assert plan.status.phase is not Phase.FAILED
        assert conditions.is_true(plan.status, ConditionType.STALLED)

    @pytest.mark.parametrize(
        ("stop", "phase"),
        [({"cancel": True}, Phase.CANCELLED), ({"completionWindow": "30s"}, Phase.EXPIRED)],
        ids=["cancel", "completion window"],
    )
    def test_a_spec_that_breaks_can_still_be_stopped(self, stop: dict[str, Any], phase: Phase) -> None:
        broken = batchjob().with_spec(worker={"resources": {"limits": "512Mi"}}, **stop)
        running = broken.planned().with_job(job("run", 1).running_pod())
        assert [type(action) for action in plan_for(running).actions] == [DeleteJob]
        assert status_of(broken.planned().with_status(phase=Phase.IN_PROGRESS)).phase is phase
        assert failed_with(status_of(broken))[0] == "InvalidSpec"

    def test_workers_are_told_about_a_changed_spec(self) -> None:
        plan = plan_for(batchjob())
        (create, _) = plan.actions
        assert isinstance(create, CreateConfigMap)
        builder = batchjob().with_job(job("plan").running_pod()).with_(config_map=config_map(create.manifest["data"]))
        assert plan_for(builder).actions == ()
        (update,) = plan_for(builder.with_spec(requests={"timeout": "9m"})).actions
        assert isinstance(update, UpdateConfigMap)
        assert '"timeout":"9m"' in update.data["job.json"]

    def test_what_only_the_operator_acts_on_is_not_told_to_workers(self) -> None:
        (create, _) = plan_for(batchjob().with_spec(worker={"env": [{"name": "TOKEN", "value": "x"}]})).actions
        assert isinstance(create, CreateConfigMap)
        assert "TOKEN" not in create.manifest["data"]["job.json"]


class TestRunning:
    def test_progress_is_published(self) -> None:
        reports = [Progress(index=index, run=1, completed=500, failed=5, shards_completed=1) for index in range(2)]
        run = job("run", 1).with_(completions=2).running_pod(index=0).running_pod(index=1)
        builder = batchjob().planned().with_job(run).with_progress(*reports)
        status = status_of(builder.with_samples((ago(seconds=10), 510), (NOW, 1010)))
        assert status.request_counts == RequestCounts(total=4000, completed=1000, failed=10)
        assert (status.progress, status.rate, status.eta) == ("1010/4000", "50/s", "60s")
        assert status.shards == ShardCounts(total=4, completed=2)

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
        assert "fails once its retries are used up" in (status_of(running).message or "")
        asking = job("plan").ended_pod(failure(Reason.SERVER_UNREACHABLE, "refused", final=False), code=1)
        assert "No request has been sent" in (status_of(batchjob().with_job(asking)).message or "")

    def test_one_worker_that_reaches_the_server_is_enough(self) -> None:
        run = job("run", 1).running_pod(index=0).running_pod(index=1)
        away = Progress(index=0, run=1, server_available=False)
        status = status_of(batchjob().planned().with_job(run).with_progress(away, Progress(index=1, run=1)))
        assert conditions.is_true(status, ConditionType.SERVER_AVAILABLE)

    def test_a_run_that_was_deleted_is_made_anew(self) -> None:
        assert created(plan_for(batchjob().planned())) == ["run-1"]

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

    def test_what_no_retry_can_mend_ends_the_batchjob(self) -> None:
        changed = failure(Reason.INPUT_CHANGED, "the input's ETag is another")
        run = job("run", 1).running_pod().ended_pod(changed, code=22).failed("PodFailurePolicy")
        assert failed_with(status_of(batchjob().planned().with_job(run))) == (
            "InputChanged",
            "the input's ETag is another",
        )

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


class TestFinalizing:
    MERGING = batchjob().planned().with_job(job("run", 1).complete())

    def test_it_waits_for_the_pod_of_the_merge_and_then_merges(self) -> None:
        def reason(merge: JobBuilder) -> str | None:
            reconciling = conditions.find(status_of(self.MERGING.with_job(merge)), ConditionType.RECONCILING)
            return reconciling and reconciling.reason

        assert reason(job("merge", 1)) == "WaitingForMerge"
        assert reason(job("merge", 1).running_pod()) == "Merging"

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
        reason, message = failed_with(status_of(builder))
        assert reason == "ShardsMissing"
        assert "1,3" in message
        assert "exit code 1" in message
        assert [type(action) for action in plan_for(builder).actions] == [DeleteJob]

    def test_where_nothing_was_ever_done_a_repair_is_not_tried(self) -> None:
        missing = ShardsMissingReport(count=4, shards="0-3")
        crashed = job("run", 1).ended_pod(None, code=137, reason="OOMKilled").failed("FailedIndexes")
        builder = batchjob().planned().with_job(crashed, job("merge", 1).ended_pod(missing, code=1))
        reason, message = failed_with(status_of(builder))
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


class TestStopping:
    def test_cancel_deletes_the_jobs_waits_for_the_pods_and_ends(self) -> None:
        running = batchjob().cancelled().planned().with_job(job("run", 1).running_pod())
        plan = plan_for(running)
        assert [type(action) for action in plan.actions] == [DeleteJob]
        assert plan.status is not None
        assert (plan.status.phase, plan.status.cancelling_at is not None) == (Phase.CANCELLING, True)

        draining = batchjob().cancelled().planned().with_(pods=job("run", 1).running_pod(delete_by=NOW).pods)
        assert status_of(draining).phase is Phase.CANCELLING

        status = status_of(batchjob().cancelled().planned())
        assert status.phase is Phase.CANCELLED
        failed = conditions.find(status, ConditionType.FAILED)
        assert failed is not None
        assert failed.reason == "Cancelled"
        assert "not published" in failed.message

    def test_a_merge_is_not_cancelled_since_every_request_has_ended(self) -> None:
        merging = batchjob().cancelled().planned().with_job(job("run", 1).complete(), job("merge", 1).running_pod())
        assert status_of(merging).phase is Phase.FINALIZING

    def test_the_completion_window_ends_the_work(self) -> None:
        builder = batchjob().with_spec(completionWindow="30s").planned()
        plan = plan_for(builder.with_job(job("run", 1).running_pod()))
        assert [type(action) for action in plan.actions] == [DeleteJob]
        status = status_of(builder)
        assert status.phase is Phase.EXPIRED
        assert conditions.is_true(status, ConditionType.FAILED)
        assert status.expires_at == IDENTITY.created_at + timedelta(seconds=30)

    def test_the_next_look_is_not_after_the_completion_window(self) -> None:
        wait = plan_for(batchjob().with_spec(completionWindow="61s").with_job(job("plan").running_pod())).wait
        assert wait is not None
        assert wait.after == timedelta(seconds=1)

    def test_a_window_without_an_end_expires_never(self) -> None:
        assert status_of(batchjob().with_spec(completionWindow="2562047h")).expires_at is not None
        assert status_of(batchjob()).expires_at is None


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
