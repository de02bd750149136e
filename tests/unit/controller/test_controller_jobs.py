"""The Jobs of the stages and their pods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.exit_codes import FINAL_EXIT_CODES, ExitCode
from batchwright.api.undone import Undone
from batchwright.controller.core import jobs
from batchwright.controller.core.observed import Stage
from batchwright.controller.core.parsing import parse_jobs
from batchwright.controller.core.resources import worker_resources
from batchwright.controller.settings import Settings
from builders import IDENTITY, batchjob, spec_of

SETTINGS = Settings(worker_image="registry/worker:1")


def spec(**changes: Any) -> BatchJobSpec:
    return BatchJobSpec.model_validate(spec_of(**changes))


def run_job(**changes: Any) -> dict[str, Any]:
    return jobs.run_job(IDENTITY, spec(**changes), SETTINGS, fingerprint="f00d", run=2, workers=3)


def all_jobs(**changes: Any) -> list[dict[str, Any]]:
    return [
        jobs.plan_job(IDENTITY, spec(**changes), SETTINGS, 1),
        run_job(**changes),
        jobs.merge_job(IDENTITY, spec(**changes), SETTINGS, fingerprint="f00d", run=2, attempt=1),
    ]


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def template_of(job: dict[str, Any]) -> str:
    template: str = job["metadata"]["annotations"]["batchwright.dev/template"]
    return template


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(job)["containers"]
    return dict(container)


def test_the_run_is_an_indexed_job_with_a_pod_for_each_worker() -> None:
    job = run_job()["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 3, 3)
    assert job["backoffLimitPerIndex"] == 6
    assert "backoffLimit" not in job
    assert "maxFailedIndexes" not in job
    assert "activeDeadlineSeconds" not in job


def test_each_stage_is_told_what_it_needs() -> None:
    plan, run, merge = (container_of(job)["args"] for job in all_jobs())
    assert plan == ["plan"]
    assert run == ["run", "--fingerprint", "f00d", "--run", "2", "--workers", "3"]
    assert merge == ["merge", "--fingerprint", "f00d", "--run", "2"]


def merge_job(undone: Undone | None, **settings: Any) -> dict[str, Any]:
    return jobs.merge_job(IDENTITY, spec(), Settings(**settings), fingerprint="f00d", run=2, attempt=3, undone=undone)


@pytest.mark.parametrize("undone", [*Undone, None])
def test_a_merge_that_closes_a_batch_is_told_so_and_known_again(undone: Undone | None) -> None:
    manifest = merge_job(undone)
    assert container_of(manifest)["args"][5:] == (["--undone", undone.value] if undone else [])
    (view,) = parse_jobs([{**manifest, "metadata": manifest["metadata"] | {"uid": "u"}}])
    assert (view.stage, view.run, view.attempt, view.undone) == (Stage.MERGE, 2, 3, undone)


@pytest.mark.parametrize(("name", "told"), [("progress.json", ["--began", "2026-01-02T03:04:05+00:00"]), (None, [])])
def test_a_merge_is_told_when_the_run_began_for_the_progress_object(name: str | None, told: list[str]) -> None:
    began = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    wanted = spec(output={"uri": "s3://bucket/out/", "names": {"progress": name}})
    arguments: dict[str, Any] = {"fingerprint": "f00d", "run": 2, "attempt": 1}
    manifest = jobs.merge_job(IDENTITY, wanted, SETTINGS, **arguments, began=began)
    assert container_of(manifest)["args"][5:] == told
    unknown = jobs.merge_job(IDENTITY, wanted, SETTINGS, **arguments)
    assert container_of(unknown)["args"][5:] == []


def test_a_merge_of_another_kind_has_another_template() -> None:
    assert len({template_of(merge_job(undone)) for undone in (*Undone, None)}) == 4


def test_no_merge_hangs_for_ever() -> None:
    assert merge_job(None)["spec"]["activeDeadlineSeconds"] == 6 * 3600
    short = merge_job(Undone.CANCELLED, merge_deadline=timedelta(milliseconds=5))
    assert short["spec"]["activeDeadlineSeconds"] == 1


def test_exit_codes_decide_what_the_job_controller_does() -> None:
    for job in all_jobs():
        disruption, interrupted, final = job["spec"]["podFailurePolicy"]["rules"]
        assert disruption == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        assert (interrupted["action"], interrupted["onExitCodes"]["values"]) == ("Ignore", [ExitCode.INTERRUPTED])
        assert (final["action"], set(final["onExitCodes"]["values"])) == ("FailJob", set(FINAL_EXIT_CODES))
        assert pod_of(job)["restartPolicy"] == "Never"


def test_pods_satisfy_the_restricted_pod_security_standard() -> None:
    for job in all_jobs():
        pod, container = pod_of(job), container_of(job)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False


def test_the_run_gets_time_to_drain_and_shows_an_outage_by_its_readiness() -> None:
    job = run_job(requests={"timeout": "1m"})
    assert pod_of(job)["terminationGracePeriodSeconds"] == 90
    assert container_of(job)["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_secrets_and_authorities_are_mounted_as_files() -> None:
    job = run_job(
        server={
            "url": "https://s",
            "apiKeySecretRef": {"name": "key", "key": "token"},
            "caBundleConfigMapRef": {"name": "ca"},
        },
    )
    paths = {mount["name"]: mount["mountPath"] for mount in container_of(job)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod_of(job)["volumes"]}
    assert paths["batchwright-storage-input"] == "/etc/batchwright/storage/input"
    assert paths["batchwright-storage-output"] == "/etc/batchwright/storage/output"
    assert paths["batchwright-server-key"] == "/etc/batchwright/server"
    assert paths["batchwright-ca-server"] == "/etc/batchwright/ca/server"
    assert volumes["batchwright-server-key"]["projected"]["sources"] == [
        {"secret": {"name": "key", "items": [{"key": "token", "path": "api-key"}]}}
    ]
    required, optional = volumes["batchwright-storage-input"]["projected"]["sources"]
    assert "optional" not in required["secret"]
    assert optional["secret"]["optional"] is True
    assert [item["key"] for item in optional["secret"]["items"]] == ["AWS_SESSION_TOKEN"]


def test_without_a_secret_the_chain_of_the_sdk_is_used() -> None:
    for job in all_jobs(storage={"region": "eu-west-1"}, worker={"serviceAccountName": "batch"}):
        assert not any("secret" in str(volume) for volume in pod_of(job)["volumes"])
        assert pod_of(job)["serviceAccountName"] == "batch"


def test_input_and_output_may_have_storage_of_their_own() -> None:
    job = run_job(
        storage={"credentialsSecretRef": {"name": "shared"}},
        input={"uri": "s3://batches/in", "storage": {"credentialsSecretRef": {"name": "reader"}}},
    )
    names = {
        volume["name"]: volume["projected"]["sources"][0]["secret"]["name"]
        for volume in pod_of(job)["volumes"]
        if "projected" in volume
    }
    assert names == {"batchwright-storage-input": "reader", "batchwright-storage-output": "shared"}


def test_labels_are_ours_and_nothing_is_copied_from_the_batchjob() -> None:
    job = run_job(worker={"labels": {"team": "a", "batchwright.dev/stage": "mine"}, "annotations": {"note": "x"}})
    template = job["spec"]["template"]["metadata"]
    assert template["labels"]["team"] == "a"
    assert template["labels"]["batchwright.dev/stage"] == "run"
    assert template["annotations"]["note"] == "x"
    assert set(job["metadata"]["labels"]) == {
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/name",
        "batchwright.dev/batchjob-uid",
        "batchwright.dev/stage",
        "batchwright.dev/run",
        "batchwright.dev/attempt",
    }


def test_a_child_belongs_to_its_batchjob() -> None:
    for job in all_jobs():
        (owner,) = job["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (IDENTITY.uid, True)
        assert job["metadata"]["namespace"] == IDENTITY.namespace


def test_only_the_run_waits_in_the_queue() -> None:
    plan, run, merge = all_jobs(queueName="batch")
    assert run["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
    assert "kueue.x-k8s.io/queue-name" not in plan["metadata"]["labels"] | merge["metadata"]["labels"]


def test_the_users_shape_of_a_pod_is_taken() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    job = run_job(
        worker={
            "image": "mine:2",
            "nodeSelector": {"pool": "cpu"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "low",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [volume],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
        }
    )
    pod, container = pod_of(job), container_of(job)
    assert container["image"] == "mine:2"
    assert pod["nodeSelector"] == {"pool": "cpu"}
    assert pod["tolerations"][0] == {"key": "gpu", "operator": "Exists"}
    assert pod["affinity"] == {"podAntiAffinity": {}}
    assert pod["priorityClassName"] == "low"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert volume in pod["volumes"]
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"]


def test_a_worker_leaves_a_lost_node_sooner_than_kubernetes_would_have_it() -> None:
    seconds = {item["key"]: item["tolerationSeconds"] for item in pod_of(run_job())["tolerations"]}
    assert seconds == {"node.kubernetes.io/not-ready": 60, "node.kubernetes.io/unreachable": 60}


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({}, {"cpu": "250m", "memory": "256Mi"}, {"memory": "512Mi"}),
        ({"limits": {"memory": "1Gi"}}, {"cpu": "250m", "memory": "256Mi"}, {"memory": "1Gi"}),
        ({"limits": {"memory": "100Mi"}}, {"memory": "100Mi"}, {"memory": "100Mi"}),
        ({"requests": {"memory": "64Mi"}}, {"memory": "64Mi"}, {"memory": "512Mi"}),
        ({"requests": {"memory": "2G"}}, {"memory": "2G"}, {"memory": "2G"}),
        ({"limits": {"cpu": "0.1"}}, {"cpu": "0.1", "memory": "256Mi"}, {"cpu": "0.1", "memory": "512Mi"}),
        ({"limits": {"nvidia.com/gpu": 1}}, {"cpu": "250m"}, {"nvidia.com/gpu": 1, "memory": "512Mi"}),
        ({"requests": {"memory": "much"}}, {"memory": "much"}, {"memory": "512Mi"}),
    ],
)
def test_resources_of_the_user_replace_the_defaults_name_by_name(
    given: dict[str, Any], requests: dict[str, Any], limits: dict[str, Any]
) -> None:
    merged = worker_resources(given)
    assert merged["requests"].items() >= requests.items()
    assert merged["limits"].items() >= limits.items()


@pytest.mark.parametrize(("asked", "shards", "workers"), [(None, 100, 8), (4, 100, 4), (8, 3, 3), (8, 1, 1), (2, 0, 1)])
def test_there_are_no_more_workers_than_shards(asked: int | None, shards: int, workers: int) -> None:
    sharding = {"sharding": {"parallelism": asked}} if asked else {}
    assert jobs.workers(spec(**sharding), shards) == workers


def test_a_built_batchjob_is_valid() -> None:
    assert batchjob().build().spec is not None
