"""The spec as a local run checks it. The API server's checks of the same cases: tests/integration/kube/test_crd.py."""

import pytest
from pydantic import ValidationError

from batchwright.api.batchjob import BatchJob, BatchJobSpec, Input
from fixtures.specs import REFUSED, SMALLEST, TAKEN, Spec, make_spec


def manifest(**changes: object) -> dict[str, object]:
    return {
        "apiVersion": "batchwright.dev/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": "nightly"},
        "spec": make_spec(),
    } | changes


@pytest.mark.parametrize("changes", TAKEN.values(), ids=list(TAKEN))
def test_a_good_spec_is_taken(changes: Spec) -> None:
    BatchJobSpec.model_validate(make_spec(changes))


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=list(REFUSED))
def test_a_bad_spec_is_refused(changes: Spec, message: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        BatchJobSpec.model_validate(make_spec(changes))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "spec",
    [
        SMALLEST | {"inputs": {}},
        make_spec({"requests": {"time_out": "3m"}}),
        make_spec({"storage": {"endpointUrl": "http://a"}}),
    ],
)
def test_a_field_that_does_not_exist_is_refused(spec: Spec) -> None:
    """The API server drops it, and kubectl warns of it; a local run says so at once."""
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        BatchJobSpec.model_validate(spec)


@pytest.mark.parametrize("name", [name for name, field in BatchJobSpec.model_fields.items() if not field.is_required()])
def test_null_means_absent(name: str) -> None:
    alias = BatchJobSpec.model_fields[name].alias
    assert BatchJobSpec.model_validate(SMALLEST | {alias: None}) == BatchJobSpec.model_validate(SMALLEST)


@pytest.mark.parametrize("changes", TAKEN.values(), ids=list(TAKEN))
def test_a_spec_comes_back_from_json_as_it_was(changes: Spec) -> None:
    """The workers get it through a ConfigMap."""
    spec = BatchJobSpec.model_validate(make_spec(changes))
    assert BatchJobSpec.model_validate_json(spec.model_dump_json(by_alias=True, exclude_none=True)) == spec


def test_an_input_uri_stays_literal() -> None:
    uri = "s3://bucket/a b/ü漢+%41#?.jsonl"
    assert Input.model_validate({"uri": uri}).uri == uri


@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": "batchwright.dev/v1"},
        {"kind": "Job"},
        {"metadata": {}},
        {"metadata": {"name": "Nightly"}},
        {"metadata": {"name": "n" * 254}},
        {"spec": {}},
    ],
    ids=["another version", "another kind", "no name", "a name in capitals", "a name of 254 characters", "no spec"],
)
def test_a_manifest_that_the_api_server_would_refuse_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BatchJob.model_validate(manifest(**change))


def test_a_manifest_read_from_a_cluster_is_taken() -> None:
    metadata = {"name": "n" * 253, "namespace": "team", "uid": "1-2", "generation": 3, "managedFields": []}
    batchjob = BatchJob.model_validate(manifest(metadata=metadata, status={"phase": "completed"}))
    assert (batchjob.metadata.namespace, batchjob.metadata.uid, batchjob.metadata.generation) == ("team", "1-2", 3)
