"""The resource on a real API server: what it takes, refuses, lets change, prunes, prints and explains.

Most requests are dry runs: the server checks them like any other and stores nothing, so that an operator that is
running in the cluster has nothing to do.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from batchwright.api import names
from batchwright.api.changes import FIELD_CHANGES, FIXED_FIELDS, Effect
from batchwright.api.crd import custom_resource_definition
from fixtures.cluster import REQUEST_SECONDS, ROOT, Cluster, eventually
from fixtures.specs import REFUSED, TAKEN, Spec, make_spec

pytestmark = pytest.mark.cluster

SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))
MERGE_PATCH = "application/merge-patch+json"

# A spec that holds every field which must not change, and another value for each.
FIXED: Spec = {
    "endpoint": "/v1/chat/completions",
    "model": "m",
    "input": {"uri": "s3://bucket/in", "limits": {"lines": 10}},
    "output": {"uri": "s3://bucket/out", "folder": "f", "names": {"results": "r.jsonl"}},
    "sharding": {"linesPerShard": 1000},
}
OTHER: dict[str, object] = {
    "endpoint": "/v1/completions",
    "model": "M",
    "input.uri": "s3://bucket/in2",
    "input.limits": {"lines": 11},
    "output.uri": "s3://bucket/out/",
    "output.folder": "F",
    "output.names": {"results": "R.jsonl"},
    "sharding.linesPerShard": 1001,
}
# A change of each field that may change.
CHANGES: dict[str, object] = {
    "input.storage": {"region": "eu-west-1", "credentialsSecretRef": {"name": "other"}},
    "output.storage": {"endpointURL": "http://s3:7070"},
    "server": {"url": "http://other:8000", "apiKeySecretRef": {"name": "other"}},
    "storage": {"credentialsSecretRef": {"name": "other"}},
    "completionWindow": "48h",
    "sharding.parallelism": 2,
    "requests": {"timeout": "5m", "retries": 1, "maxConcurrency": 2, "priority": 7},
    "requests.maxFailures": "10%",
    "suspend": False,
    "cancel": True,
    "resume": "Never",
    "ttlSecondsAfterFinished": 60,
    "queueName": "other",
    "worker": {"resources": {"limits": {"memory": "1Gi"}}, "labels": {"a": "b"}},
    "metadata": {"note": "other"},
}


class BatchJobs:
    """BatchJobs of one namespace, raw."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._api = client.CustomObjectsApi(cluster.api_client)
        self._place = (names.GROUP, names.VERSION, namespace, names.PLURAL)

    def create(self, name: str, spec: Spec, *, dry_run: bool = True, **top_level: object) -> Any:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": spec,
        } | top_level
        return self._api.create_namespaced_custom_object(
            *self._place, body, dry_run="All" if dry_run else None, _request_timeout=REQUEST_SECONDS
        )

    def change(self, name: str, changes: Spec, *, dry_run: bool = True) -> Any:
        return self._api.patch_namespaced_custom_object(
            *self._place,
            name,
            {"spec": changes},
            dry_run="All" if dry_run else None,
            _content_type=MERGE_PATCH,
            _request_timeout=REQUEST_SECONDS,
        )

    def patch(self, name: str, body: dict[str, Any], *, status: bool) -> Any:
        patch = self._api.patch_namespaced_custom_object_status if status else self._api.patch_namespaced_custom_object
        return patch(*self._place, name, body, _content_type=MERGE_PATCH, _request_timeout=REQUEST_SECONDS)

    def get(self, *arguments: str) -> str:
        return self.cluster.kubectl("get", *arguments, "--namespace", self.namespace)


@pytest.fixture(scope="module")
def batchjobs(crd: Cluster, namespace: str) -> Iterator[BatchJobs]:
    """The namespace with three BatchJobs: with every fixed field, with the fewest fields, and a cancelled one."""
    api = BatchJobs(crd, namespace)
    api.create("fixed", FIXED | {"suspend": True}, dry_run=False)
    api.create("bare", make_spec({"suspend": True}), dry_run=False)
    api.create("cancelled", make_spec({"suspend": True, "cancel": True}), dry_run=False)
    yield api
    crd.kubectl("delete", "batchjobs", "--all", "--namespace", namespace, "--wait=false")


def nested(path: str, value: object) -> Spec:
    """A merge patch that sets one field."""
    first, *rest = path.split(".", 1)
    return {first: nested(rest[0], value) if rest else value}


def refusal(request: Any, *arguments: object, **options: object) -> str:
    """The message that a request is refused with as invalid."""
    with pytest.raises(client.ApiException) as error:
        request(*arguments, **options)
    assert error.value.status == 422
    return str(error.value.body)


# --- what is taken and refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", TAKEN.values(), ids=list(TAKEN))
def test_a_good_spec_is_taken_and_stored_as_it_is(batchjobs: BatchJobs, changes: Spec) -> None:
    """No default is filled in: GitOps tools would see a difference for ever."""
    spec = make_spec(changes)
    assert batchjobs.create("good", spec)["spec"] == spec


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=list(REFUSED))
def test_a_bad_spec_is_refused(batchjobs: BatchJobs, changes: Spec, message: str) -> None:
    assert message in refusal(batchjobs.create, "bad", make_spec(changes))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_kubectl_takes_the_samples(batchjobs: BatchJobs, path: Path) -> None:
    manifest = re.sub(r"^  namespace: .*\n", "", path.read_text(), flags=re.MULTILINE)
    arguments = ("apply", "--dry-run=server", "--namespace", batchjobs.namespace, "-f", "-")
    assert "created (server dry run)" in batchjobs.cluster.kubectl(*arguments, stdin=manifest)


def test_null_means_absent(batchjobs: BatchJobs) -> None:
    spec = make_spec() | {"model": None, "requests": {"priority": None, "maxFailures": None}, "queueName": None}
    assert batchjobs.create("nulls", spec)["spec"] == make_spec({"requests": {}})


def test_an_unknown_scheme_is_answered_with_what_to_write(batchjobs: BatchJobs) -> None:
    message = refusal(batchjobs.create, "bad", make_spec({"input": {"uri": "gs://bucket/key"}}))
    assert "spec.input.uri" in message
    assert "write s3://bucket/key, or file:///path of a mounted volume" in message


def test_a_name_of_253_characters_is_taken(batchjobs: BatchJobs) -> None:
    assert len(batchjobs.create("n" * 253, make_spec())["metadata"]["name"]) == 253


# --- what may change -------------------------------------------------------------------------------------------------


def test_the_cases_cover_every_field() -> None:
    assert OTHER.keys() == set(FIXED_FIELDS)
    assert CHANGES.keys() == {entry.path for entry in FIELD_CHANGES if entry.effect is not Effect.NEVER}


@pytest.mark.parametrize("path", FIXED_FIELDS)
def test_a_fixed_field_can_not_be_changed(batchjobs: BatchJobs, path: str) -> None:
    message = refusal(batchjobs.change, "fixed", nested(path, OTHER[path]))
    assert f"spec.{path}: Invalid value" in message
    assert f"{path} can't be changed after creation: delete the BatchJob and create it anew" in message


@pytest.mark.parametrize("path", sorted(set(FIXED_FIELDS) - {"input.uri", "output.uri"}))
def test_a_fixed_field_can_not_be_removed(batchjobs: BatchJobs, path: str) -> None:
    assert f"{path} can't be changed after creation" in refusal(batchjobs.change, "fixed", nested(path, None))


@pytest.mark.parametrize("path", ["sharding", "output.names.results"])
def test_nor_can_what_it_stands_in_or_what_stands_in_it(batchjobs: BatchJobs, path: str) -> None:
    assert "can't be changed after creation" in refusal(batchjobs.change, "fixed", nested(path, None))


@pytest.mark.parametrize("path", ["input.uri", "output.uri"])
def test_a_required_field_can_not_be_removed(batchjobs: BatchJobs, path: str) -> None:
    assert f"spec.{path}: Required value" in refusal(batchjobs.change, "fixed", nested(path, None))


@pytest.mark.parametrize("path", sorted(set(FIXED_FIELDS) - {"input.uri", "output.uri"}))
def test_a_fixed_field_can_not_be_added(batchjobs: BatchJobs, path: str) -> None:
    assert f"{path} can't be changed after creation" in refusal(batchjobs.change, "bare", nested(path, OTHER[path]))


@pytest.mark.parametrize("name", ["fixed", "bare"])
@pytest.mark.parametrize(("path", "value"), CHANGES.items(), ids=list(CHANGES))
def test_every_other_field_may_change(batchjobs: BatchJobs, name: str, path: str, value: object) -> None:
    stored = batchjobs.change(name, nested(path, value))["spec"]
    for step in path.split("."):
        stored = stored[step]
    assert stored == value


@pytest.mark.parametrize("value", [False, None], ids=["false", "removed"])
def test_cancel_can_not_be_undone(batchjobs: BatchJobs, value: object) -> None:
    message = refusal(batchjobs.change, "cancelled", {"cancel": value})
    assert "spec.cancel: Invalid value" in message
    assert "cancel can't be undone: create a new BatchJob" in message


def test_a_cancelled_batchjob_may_still_be_kept_for_less_time(batchjobs: BatchJobs) -> None:
    assert batchjobs.change("cancelled", {"ttlSecondsAfterFinished": 5})["spec"]["ttlSecondsAfterFinished"] == 5


# --- pruning ---------------------------------------------------------------------------------------------------------


def test_an_unknown_field_is_dropped(batchjobs: BatchJobs) -> None:
    spec = make_spec({"requests": {"timeOut": "3m", "timeout": "2m"}})
    assert batchjobs.create("pruned", spec)["spec"]["requests"] == {"timeout": "2m"}


def test_kubectl_says_so(batchjobs: BatchJobs) -> None:
    manifest = (
        "{apiVersion: batchwright.dev/v1alpha1, kind: BatchJob, metadata: {name: a},"
        " spec: {input: {uri: 's3://bucket/a'}, output: {uri: 's3://bucket'}, requests: {timeOut: 3m}}}"
    )
    arguments = ("create", "--dry-run=server", "--namespace", batchjobs.namespace, "-f", "-")
    assert 'unknown field "spec.requests.timeOut"' in batchjobs.cluster.kubectl(*arguments, stdin=manifest, check=False)


def test_parts_of_a_pod_are_kept_whole(batchjobs: BatchJobs) -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "s"}
    worker = {
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"example.com/device": 2}},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
        },
        "volumes": [
            {"name": "data", "csi": {"driver": "example.com", "volumeAttributes": {"a": "b"}}},
            {"name": "claimed", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "nfs", "nfs": {"server": "nfs.example.com", "path": "/"}},
            {
                "name": "own",
                "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": claim}},
            },
            {
                "name": "several",
                "projected": {"sources": [{"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}]},
            },
        ],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True}],
        "env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
            {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}},
        ],
    }
    assert batchjobs.create("pod", make_spec({"worker": worker}))["spec"]["worker"] == worker


def levels(count: int) -> Spec:
    """Objects within one another. The client itself can send no thousand of them, which others can."""
    whole: Spec = {}
    for _ in range(count):
        whole = {"a": whole}
    return whole


@pytest.mark.parametrize(
    "worker",
    [
        {"affinity": levels(300)},
        {"resources": {"claims": [levels(300)]}},
        {"tolerations": [{"key": "a", "other": levels(300)}]},
        {"volumes": [{"name": "a", "csi": {"driver": "b", "volumeAttributes": {}, "other": levels(300)}}]},
        {"volumeMounts": [levels(300)]},
        {"env": [{"name": "A", "valueFrom": levels(300)}]},
    ],
    ids=lambda worker: next(iter(worker)),
)
def test_nothing_can_be_nested_so_deep_that_it_can_not_be_read(batchjobs: BatchJobs, worker: Spec) -> None:
    stored = batchjobs.create("deep", make_spec({"worker": worker}))["spec"]["worker"]
    assert len(str(stored)) < 200


# --- the status ------------------------------------------------------------------------------------------------------

FINISHED = {
    "phase": "completed",
    "observedGeneration": 1,
    "message": "5000 requests: 4990 completed, 10 failed.",
    "progress": "5000/5000",
    "rate": "412/s",
    "eta": "0s",
    "requestCounts": {"total": 5000, "completed": 4990, "failed": 10},
    "output": {"uri": "s3://bucket/out/fixed/results.jsonl", "bytes": 2**40, "lines": 4990},
    "finishReasons": {"stop": 4990},
    "createdAt": "2026-11-29T12:00:00Z",
    "conditions": [
        {
            "type": "Complete",
            "status": "True",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-29T12:00:12Z",
            "reason": "CompletedWithFailures",
            "message": "Done.",
        }
    ],
}


@pytest.fixture
def finished(batchjobs: BatchJobs) -> BatchJobs:
    """A BatchJob with a terminal status, which an operator leaves alone."""
    batchjobs.patch("fixed", {"status": FINISHED}, status=True)
    return batchjobs


def test_a_status_can_not_be_written_with_the_spec(batchjobs: BatchJobs) -> None:
    assert "status" not in batchjobs.create("fresh", make_spec(), status={"phase": "completed"})
    stored = batchjobs.patch("bare", {"status": {"phase": "expired"}}, status=False)
    assert (stored.get("status") or {}).get("phase") != "expired"


def test_a_spec_can_not_be_written_with_the_status(batchjobs: BatchJobs) -> None:
    stored = batchjobs.patch("fixed", {"spec": {"suspend": False}, "status": FINISHED}, status=True)
    assert stored["spec"]["suspend"] is True
    # An operator on the cluster may have written fields of its own before.
    assert stored["status"] | FINISHED == stored["status"]
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "running"},
        {"createdAt": "yesterday"},
        {"message": "m" * 2049},
        {"requestCounts": {"failed": -1}},
        {"conditions": [{"type": "Complete", "status": "true"}]},
        {"finishReasons": {f"r{n}": 1 for n in range(17)}},
    ],
    ids=["unknown phase", "no time", "long message", "negative count", "half a condition", "17 reasons"],
)
def test_a_status_outside_of_its_schema_is_refused(batchjobs: BatchJobs, status: dict[str, Any]) -> None:
    refusal(batchjobs.patch, "fixed", {"status": status}, status=True)


# --- what people see -------------------------------------------------------------------------------------------------


def table(text: str) -> list[list[str]]:
    """The cells of what `kubectl get` prints, which stand at least three spaces apart."""
    return [re.split(r" {3,}", line.strip()) for line in text.splitlines()]


def test_get_prints_the_columns(finished: BatchJobs) -> None:
    def printed() -> None:
        header, row = table(finished.get("bj", "fixed"))
        assert header == ["NAME", "PHASE", "PROGRESS", "FAILED", "RATE", "ETA", "AGE"]
        assert row[:6] == ["fixed", "completed", "5000/5000", "10", "412/s", "0s"]

    eventually(printed)


def test_wide_adds_output_and_message(finished: BatchJobs) -> None:
    header, row = table(finished.get("batchjob", "fixed", "--output=wide"))
    assert header[-2:] == ["OUTPUT", "MESSAGE"]
    assert row[-2:] == [FINISHED["output"]["uri"], FINISHED["message"]]  # type: ignore[index]


def test_the_category_lists_batchjobs(finished: BatchJobs) -> None:
    assert "fixed" in finished.get("batchwright", "--output=name")


def test_finished_ones_are_selected_by_phase(finished: BatchJobs) -> None:
    selected = finished.get("bj", "--field-selector=status.phase=completed", "--output=name")
    assert selected.split() == ["batchjob.batchwright.dev/fixed"]


def test_wait_sees_the_end(finished: BatchJobs) -> None:
    arguments = ("--for=condition=Complete", "--timeout=20s", "--namespace", finished.namespace)
    assert "condition met" in finished.cluster.kubectl("wait", "batchjob/fixed", *arguments)


def objects(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with fields of its own, by the path that `kubectl explain` takes."""
    if "properties" in schema:
        yield path, schema
        for name, child in schema["properties"].items():
            yield from objects(child.get("items", child), f"{path}.{name}")


EXPLAINED = [
    *objects(SCHEMA["properties"]["spec"], "batchjob.spec"),
    *objects(SCHEMA["properties"]["status"], "batchjob.status"),
]


@pytest.mark.parametrize(("path", "schema"), EXPLAINED, ids=[path for path, _ in EXPLAINED])
def test_explain_says_what_every_field_means(crd: Cluster, path: str, schema: dict[str, Any]) -> None:
    """With unit and default, which tests/unit/api/test_crd.py finds in the descriptions."""
    printed = " ".join(crd.kubectl("explain", path).split())
    for name, field in schema["properties"].items():
        assert re.search(rf"\b{name} <\S+>( -required-| enum: [^<]*)* {re.escape(field['description'])}", printed), name
