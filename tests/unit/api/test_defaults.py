"""What an absent field of the spec means."""

from datetime import timedelta

import pytest

from batchwright.api import defaults
from batchwright.api.batchjob import BatchJob, BatchJobSpec, Storage
from fixtures.specs import Spec, make_spec


def spec(changes: Spec | None = None) -> BatchJobSpec:
    return BatchJobSpec.model_validate(make_spec(changes))


def test_requests_have_the_documented_defaults() -> None:
    expected = defaults.RequestPolicy(timeout=timedelta(minutes=3), retries=3, max_concurrency=64, priority=None)
    assert defaults.request_policy(spec()) == expected
    assert defaults.request_policy(spec({"requests": {}})) == expected


def test_what_is_given_counts_zeros_too() -> None:
    policy = defaults.request_policy(
        spec({"requests": {"timeout": "90s", "retries": 0, "maxConcurrency": 1, "priority": 0}})
    )
    assert policy == defaults.RequestPolicy(timedelta(seconds=90), retries=0, max_concurrency=1, priority=0)


def test_sharding_is_eight_workers_and_shards_that_the_plan_chooses() -> None:
    assert (defaults.parallelism(spec()), defaults.lines_per_shard(spec())) == (8, None)
    given = spec({"sharding": {"parallelism": 3, "linesPerShard": 10}})
    assert (defaults.parallelism(given), defaults.lines_per_shard(given)) == (3, 10)


@pytest.mark.parametrize(
    ("changes", "input_region", "output_region"),
    [
        ({}, None, None),
        ({"storage": {"region": "a"}}, "a", "a"),
        ({"storage": {"region": "a"}, "input": {"storage": {"region": "b"}}}, "b", "a"),
        ({"storage": {"region": "a"}, "output": {"storage": {"region": "c"}}}, "a", "c"),
    ],
)
def test_a_side_has_its_own_store_or_the_common_one(
    changes: Spec, input_region: str | None, output_region: str | None
) -> None:
    assert defaults.input_storage(spec(changes)).region == input_region
    assert defaults.output_storage(spec(changes)).region == output_region


def test_a_store_of_its_own_replaces_the_common_one_as_a_whole() -> None:
    changes = {"storage": {"endpointURL": "http://s3:7070", "region": "a"}, "input": {"storage": {"region": "b"}}}
    assert defaults.input_storage(spec(changes)) == Storage(region="b")


@pytest.mark.parametrize(
    ("server", "operator_default", "expected"),
    [
        ({}, None, None),
        ({}, "http://default:8000/", "http://default:8000"),
        ({"url": "http://vllm:8000/"}, "http://default", "http://vllm:8000"),
        ({"service": {"name": "vllm"}}, "http://default", "http://vllm.team.svc:8000"),
        ({"service": {"name": "vllm", "port": 80}}, None, "http://vllm.team.svc:80"),
    ],
)
def test_the_server_is_the_specs_else_the_operators(
    server: Spec, operator_default: str | None, expected: str | None
) -> None:
    assert defaults.server_url(spec({"server": server}), "team", operator_default) == expected


@pytest.mark.parametrize(("folder", "expected"), [(None, "nightly"), ("eval_model_1", "eval_model_1")])
def test_the_folder_has_the_name_of_the_batchjob_or_its_own(folder: str | None, expected: str) -> None:
    job = {"metadata": {"name": "nightly"}, "spec": make_spec({"output": {"folder": folder}})}
    assert defaults.output_folder(BatchJob.model_validate(job)) == expected


def test_outputs_have_the_documented_names() -> None:
    names = defaults.published_names(spec().output)
    assert (names.results, names.errors, names.retry, names.progress) == (
        "results.jsonl",
        "errors.jsonl",
        "retry.jsonl",
        None,
    )
    names = defaults.published_names(spec({"output": {"names": {"errors": "bad", "progress": "now"}}}).output)
    assert (names.results, names.errors, names.progress) == ("results.jsonl", "bad", "now")


@pytest.mark.parametrize(
    ("timeout", "grace"),
    [("500ms", timedelta(seconds=30.5)), ("3m", timedelta(minutes=3, seconds=30)), ("1h", timedelta(minutes=5))],
)
def test_the_grace_period_covers_a_request_up_to_five_minutes(timeout: str, grace: timedelta) -> None:
    assert defaults.grace_period(spec({"requests": {"timeout": timeout}})) == grace
