"""The BatchJob that a batch becomes: valid, bounded, and the same whoever makes it."""

from datetime import timedelta
from typing import Any

from batchwright.api.batchjob import BatchJob, Server
from batchwright.gateway.batches.batchjob import manifest_of, spec_of
from batchwright.gateway.settings import Settings
from fixtures.batch_records import BATCH_ID, CREATED, FILE_ID, record


def spec(settings: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "face": "openai",
        "endpoint": "/v1/completions",
        "input_uri": "s3://bucket/p/team-a/file-1",
        "output_uri": "s3://bucket/p/team-a/",
        "server": None,
        "completion_window": "24h",
    }
    return spec_of(
        Settings.model_validate({"batchPath": "s3://bucket/p/"} | (settings or {})), "team-a", **fields | changes
    )


def test_a_spec_of_the_defaults_alone() -> None:
    assert spec() == {
        "endpoint": "/v1/completions",
        "input": {"uri": "s3://bucket/p/team-a/file-1", "limits": {"lines": 50_000, "bytes": 200_000_000}},
        "output": {"uri": "s3://bucket/p/team-a/"},
        "completionWindow": "24h",
        "sharding": {"linesPerShard": 1000, "parallelism": 8},
        "requests": {"timeout": "3m", "retries": 3},
        "ttlSecondsAfterFinished": 604_800,
    }


def test_a_spec_with_everything_from_the_settings_is_a_valid_one() -> None:
    settings = {
        "storage": {"endpointURL": "http://s3:9000", "credentialsSecretRef": {"name": "tenant-storage"}},
        "batchJobs": {"queueName": "batches", "worker": {"nodeSelector": {"pool": "cpu"}}, "ttlAfterFinished": "1h"},
    }
    made = spec(settings, server=Server(url="http://vllm:8000"), model="m", metadata={"team": "a"})

    BatchJob.model_validate(manifest_of(record(spec=made)))
    assert made["storage"] == {"endpointURL": "http://s3:9000", "credentialsSecretRef": {"name": "tenant-storage"}}
    assert (made["queueName"], made["worker"]) == ("batches", {"nodeSelector": {"pool": "cpu"}})
    assert (made["server"], made["model"], made["metadata"]) == ({"url": "http://vllm:8000"}, "m", {"team": "a"})
    assert made["ttlSecondsAfterFinished"] == 3600


def test_limits_are_those_of_face_and_tenant() -> None:
    settings = {"tenants": {"team-a": {"limits": {"openai": {"lines": 7, "bytes": None}}}}}

    assert spec(settings)["input"]["limits"] == {"lines": 7}
    assert spec(face="paths")["input"]["limits"] == {"lines": 150_000}


def test_a_face_adds_what_it_needs() -> None:
    made = spec(output={"folder": "f", "names": {"progress": "p.json"}}, worker={"volumes": [{"name": "v"}]})

    assert made["output"] == {"uri": "s3://bucket/p/team-a/", "folder": "f", "names": {"progress": "p.json"}}
    assert made["worker"] == {"volumes": [{"name": "v"}]}


def test_a_manifest_says_whose_it_is() -> None:
    made = manifest_of(record())

    assert made["metadata"] == {
        "name": "batch-" + BATCH_ID.removeprefix("batch_"),
        "namespace": "team-a",
        "labels": {"batchwright.dev/gateway": "openai"},
        "annotations": {
            "batchwright.dev/gateway-user": "alice",
            "batchwright.dev/batch-id": BATCH_ID,
            "batchwright.dev/input-file-id": FILE_ID,
        },
    }


def test_a_batch_that_was_cancelled_before_its_batchjob_was_made_gets_a_cancelled_one() -> None:
    made = manifest_of(record(cancelling_at=CREATED + timedelta(seconds=1)))

    assert made["spec"]["cancel"] is True
    assert made["metadata"]["annotations"]["batchwright.dev/cancelling-at"] == "2026-03-01T12:00:01Z"
