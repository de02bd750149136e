"""The plan stage, and the spec that it begins with."""

from datetime import timedelta
from typing import Any

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.reports import (
    InterruptedReport,
)
from batchwright.api.status import (
    RequestCounts,
    ShardCounts,
    ValidationError,
)
from batchwright.controller.core import conditions
from batchwright.controller.core.observed import JobEnd
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    UpdateConfigMap,
)
from batchwright.controller.settings import Settings
from builders import IDENTITY, JobBuilder, ago, batchjob, config_map, job
from fixtures.reconciling import PLANNED, created, failed_with, failure, plan_for, status_of


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
            assert status_of(stopped).phase in (Phase.CANCELLED, Phase.EXPIRED)
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
