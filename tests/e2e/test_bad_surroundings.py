"""What a BatchJob needs is missing or refuses it: a condition names cause and remedy, and nothing hangs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import fresh_quickstart
from e2e.quickstart import Quickstart, chat_line, condition
from fixtures.cluster import Cluster

STORAGE = {"endpointURL": "http://s3:7070", "credentialsSecretRef": {"name": "s3-credentials"}}

FAILING: tuple[tuple[str, dict[str, Any], str, tuple[str, ...]], ...] = (
    (
        "a bucket that does not exist",
        {"output": {"uri": "s3://no-such-bucket/out/"}},
        "BucketNotFound",
        ("no-such-bucket",),
    ),
    (
        "an input that does not exist",
        {"input": {"uri": "s3://batches/in/no-such-file.jsonl"}},
        "InputNotFound",
        ("s3://batches/in/no-such-file.jsonl", "Put the file there"),
    ),
    (
        "a model server that serves another model",
        {"model": "another"},
        "InvalidInput",
        ("another",),
    ),
    (
        "wrong credentials",
        {"storage": STORAGE | {"credentialsSecretRef": {"name": "wrong-credentials"}}},
        "StorageCredentialsInvalid",
        ("s3://batches/",),
    ),
)


@pytest.fixture(scope="module")
def ended(cluster: Cluster, quickstart_bucket: Any) -> Iterator[dict[str, dict[str, Any]]]:
    """Every BatchJob of the table at its end; the model server was asked for nothing. They run side by side."""
    with fresh_quickstart(cluster, quickstart_bucket) as quickstart:
        keys = ("--from-literal=AWS_ACCESS_KEY_ID=nobody", "--from-literal=AWS_SECRET_ACCESS_KEY=nothing")
        quickstart.kubectl("create", "secret", "generic", "wrong-credentials", *keys)
        try:
            names = {what: quickstart.name("bad") for what, *_ in FAILING}
            for what, spec, _, _ in FAILING:
                quickstart.apply(names[what], quickstart.put(f"in/{names[what]}.jsonl", [chat_line("a")]), **spec)
            jobs = {what: quickstart.wait(name) for what, name in names.items()}
        finally:
            quickstart.kubectl("delete", "secret", "wrong-credentials")
        assert quickstart.arrivals() == {}
        yield jobs


@pytest.mark.parametrize(
    ("what", "reason", "words"), [(row[0], *row[2:]) for row in FAILING], ids=[row[0] for row in FAILING]
)
def test_it_fails_and_says_why(
    ended: dict[str, dict[str, Any]], what: str, reason: str, words: tuple[str, ...]
) -> None:
    failed = condition(ended[what], "Failed")
    assert (failed["status"], failed["reason"]) == ("True", reason)
    for word in words:
        assert word in failed["message"]
    assert condition(ended[what], "Reconciling")["status"] == "False"


def test_a_missing_secret_stalls_it_and_it_goes_on_once_the_secret_is_there(quickstart: Quickstart) -> None:
    name, secret = quickstart.name("secret"), quickstart.name("late")
    uri = quickstart.put(f"in/{name}.jsonl", [chat_line("a")])
    quickstart.apply(name, uri, storage=STORAGE | {"credentialsSecretRef": {"name": secret}})
    stalled = condition(quickstart.wait_condition(name, "Stalled", "True"), "Stalled")
    assert stalled["reason"] == "SecretMissing"
    assert secret in stalled["message"]
    data = quickstart.kubectl("get", "secret", "s3-credentials", "-o", "json").replace(
        '"s3-credentials"', f'"{secret}"'
    )
    quickstart.kubectl("create", "-f", "-", stdin=_without_identity(data))
    try:
        assert quickstart.wait(name)["status"]["phase"] == "completed"
    finally:
        quickstart.kubectl("delete", "secret", secret)


def test_a_model_server_that_is_down_is_shown_and_the_work_goes_on_when_it_is_back(quickstart: Quickstart) -> None:
    name = quickstart.name("down")
    uri = quickstart.put(f"in/{name}.jsonl", [chat_line("a")])
    quickstart.switch(drain=True)
    try:
        quickstart.apply(name, uri)
        away = condition(quickstart.wait_condition(name, "ServerAvailable", "False"), "ServerAvailable")
        assert "model-server" in away["message"]
        assert quickstart.get(name)["status"]["phase"] == "validating"
    finally:
        quickstart.switch(drain=False)
    assert quickstart.wait(name, "completed")["status"]["requestCounts"]["completed"] == 1


def test_a_scheme_that_is_not_supported_is_refused_at_once(quickstart: Quickstart) -> None:
    with pytest.raises(AssertionError, match=r"spec\.input\.uri"):
        quickstart.apply(quickstart.name("scheme"), "gs://bucket/key")


def _without_identity(manifest: str) -> str:
    secret = json.loads(manifest)
    secret["metadata"] = {"name": secret["metadata"]["name"]}
    return json.dumps(secret)
