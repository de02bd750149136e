"""The settings file: what it may say, what is refused with which name, and what tenants have of their own."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchwright.gateway.settings import (
    FaceLimits,
    InvalidSettings,
    Settings,
    TenantLimits,
    load_settings,
    parse_settings,
)

VOLUME = {"claimName": "data", "mountPath": "/data"}


def settings_of(**fields: Any) -> Settings:
    return parse_settings(yaml.safe_dump({"batchPath": "s3://batches/gateway/", **fields}), "settings.yaml")


def complaint(**fields: Any) -> str:
    with pytest.raises(InvalidSettings) as error:
        settings_of(**fields)
    return str(error.value)


def test_one_setting_is_enough() -> None:
    settings = settings_of()
    assert settings.batch_path == "s3://batches/gateway/"
    assert settings.completion_windows == ["24h"]
    assert settings.root_path == ""
    assert settings.keep_batches is None
    assert settings.shared_volume is None


@pytest.mark.parametrize("kept", ["24h", "72h"])
def test_an_ended_batch_may_be_forgotten_after_a_day(kept: str) -> None:
    assert settings_of(keepBatches=kept).keep_batches == timedelta(hours=int(kept[:-1]))


@pytest.mark.parametrize("kept", ["1h", "23h59m59s"])
def test_no_batch_is_forgotten_while_its_idempotency_key_is_kept(kept: str) -> None:
    message = complaint(keepBatches=kept)
    assert "settings.yaml: keepBatches: " in message
    assert "at least 24h" in message
    assert "Idempotency-Key" in message


def test_batch_jobs_are_made_with_the_defaults_of_a_service() -> None:
    defaults = settings_of().batch_jobs
    assert defaults.sharding.parallelism == 8
    assert defaults.sharding.lines_per_shard == 1000
    assert defaults.requests.timeout == timedelta(minutes=3)
    assert defaults.requests.retries == 3
    assert defaults.ttl_after_finished == timedelta(days=7)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("s3://batches", None),
        ("s3://batches/", "s3://batches/"),
        ("s3://batches/a/b", "s3://batches/a/b/"),
        ("file:///data/batches", "file:///data/batches/"),
        ("file:///", "file:///"),
    ],
)
def test_batch_path_is_a_folder(written: str, read: str | None) -> None:
    assert settings_of(batchPath=written).batch_path == (read or "s3://batches/")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no scheme": ({"batchPath": "/data"}, "batchPath"),
    "another scheme": ({"batchPath": "http://x/y"}, "batchPath"),
    "a path that leads away": ({"batchPath": "s3://batches/../x/"}, "batchPath"),
    "a relative file path": ({"batchPath": "file://data/"}, "batchPath"),
    "a name that nobody knows": ({"batchpath": "x"}, "batchpath"),
    "an endpoint that is no URL": ({"storage": {"endpointURL": "s3:7070"}}, "storage.endpointURL"),
    "a server that is no URL": ({"defaultServer": {"url": "vllm"}}, "defaultServer.url"),
    "no workers": ({"batchJobs": {"sharding": {"parallelism": 0}}}, "batchJobs.sharding.parallelism"),
    "a timeout that is no duration": ({"batchJobs": {"requests": {"timeout": "soon"}}}, "batchJobs.requests.timeout"),
    "a TTL that is no duration": ({"batchJobs": {"ttlAfterFinished": "7 days"}}, "batchJobs.ttlAfterFinished"),
    "a TTL too short for a look": ({"batchJobs": {"ttlAfterFinished": "9m"}}, "batchJobs.ttlAfterFinished"),
    "a window of no time": ({"completionWindows": ["24h", "0s"]}, "completionWindows.1"),
    "no lines": ({"limits": {"openai": {"lines": 0}}}, "limits.openai.lines"),
    "lines as text": ({"limits": {"paths": {"lines": "many"}}}, "limits.paths.lines"),
    "half a batch": ({"limits": {"tenant": {"activeBatches": 0.5}}}, "limits.tenant.activeBatches"),
    "a face that nobody knows": ({"limits": {"azure": {}}}, "limits.azure"),
    "a tenant that can't be a namespace": ({"tenants": {"Team_A": {}}}, "tenants.Team_A"),
    "a tenant that leads away": ({"tenants": {"../a": {}}}, "tenants.../a"),
    "a tenant's limit": (
        {"tenants": {"team-a": {"limits": {"tenant": {"burst": -1}}}}},
        "tenants.team-a.limits.tenant.burst",
    ),
    "no windows": ({"completionWindows": []}, "completionWindows"),
    "a window without a unit": ({"completionWindows": ["24"]}, "completionWindows.0"),
    "a root path without a slash": ({"rootPath": "batch"}, "rootPath"),
    "a root path with a slash too many": ({"rootPath": "/batch/"}, "rootPath"),
    "a deadline that is no duration": ({"uploadDeadline": 5}, "uploadDeadline"),
    "a volume without a claim": ({"sharedVolume": {"mountPath": "/data"}}, "sharedVolume.claimName"),
    "a volume at the root": ({"sharedVolume": VOLUME | {"mountPath": "/"}}, "sharedVolume.mountPath"),
    "a volume at a place that leads away": (
        {"sharedVolume": VOLUME | {"mountPath": "/data/../etc"}},
        "sharedVolume.mountPath",
    ),
    "one folder for all tenants": ({"sharedVolume": VOLUME | {"tenantRoot": "users"}}, "sharedVolume.tenantRoot"),
    "a tenant's name within a name": (
        {"sharedVolume": VOLUME | {"tenantRoot": "user-{tenant}"}},
        "sharedVolume.tenantRoot",
    ),
    "a root that leads away": ({"sharedVolume": VOLUME | {"sharedRoots": ["../etc"]}}, "sharedVolume.sharedRoots"),
    "an absolute root": ({"sharedVolume": VOLUME | {"sharedRoots": ["/models"]}}, "sharedVolume.sharedRoots"),
    "a root that holds the tenants": ({"sharedVolume": VOLUME | {"sharedRoots": ["tenants"]}}, "sharedVolume"),
    "a root within the tenants": ({"sharedVolume": VOLUME | {"sharedRoots": ["tenants/shared"]}}, "sharedVolume"),
    "tenants over the whole volume, and a root": (
        {"sharedVolume": VOLUME | {"tenantRoot": "{tenant}", "sharedRoots": ["models"]}},
        "sharedVolume",
    ),
    "batches within a shared root": (
        {"batchPath": "file:///data/models/", "sharedVolume": VOLUME | {"sharedRoots": ["models"]}},
        "sharedVolume.sharedRoots",
    ),
    "a volume within batchPath": (
        {"batchPath": "file:///data/", "sharedVolume": VOLUME | {"mountPath": "/data/v"}},
        "mountPath",
    ),
    "tenants' parts that meet batchPath": (
        {"batchPath": "file:///data/", "sharedVolume": VOLUME | {"tenantRoot": "home/{tenant}"}},
        "sharedVolume.tenantRoot",
    ),
}


@pytest.mark.parametrize(("fields", "name"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_is_refused_by_its_name(fields: dict[str, Any], name: str) -> None:
    message = complaint(**fields)
    assert name in message
    assert "settings.yaml" in message


def test_all_problems_are_named_at_once() -> None:
    message = complaint(rootPath="x", completionWindows=[], limits={"openai": {"lines": 0}})
    for name in ("rootPath", "completionWindows", "limits.openai.lines"):
        assert name in message


def test_a_value_that_is_refused_is_not_repeated() -> None:
    """Somebody may have put a password where none belongs."""
    assert "hunter2" not in complaint(storage={"secretKey": "hunter2"})


def test_without_batch_path_its_name_is_said() -> None:
    with pytest.raises(InvalidSettings, match="batchPath"):
        parse_settings("rootPath: /batch\n", "settings.yaml")


@pytest.mark.parametrize(
    ("text", "words"), [("a: [", "no YAML"), ("- a", "must be a mapping"), ("", "must be a mapping")]
)
def test_another_file_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        parse_settings(text, "settings.yaml")


def test_settings_are_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("batchPath: s3://elsewhere/\n")
    assert load_settings({"BATCHWRIGHT_GATEWAY_SETTINGS": str(path)}).batch_path == "s3://elsewhere/"


@pytest.mark.parametrize("content", [None, b"\xff"], ids=["missing", "no UTF-8"])
def test_a_file_that_cannot_be_read_is_named_with_a_remedy(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "settings.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSettings) as error:
        load_settings({"BATCHWRIGHT_GATEWAY_SETTINGS": str(path)})
    assert str(path) in str(error.value)
    assert "ConfigMap `gateway`" in str(error.value)


# --- limits ----------------------------------------------------------------------------------------------------------


def limits_with(general: dict[str, Any] | None, own: dict[str, Any] | None) -> Settings:
    """Settings with limits of all tenants, and of team-a."""
    tenants = {} if own is None else {"tenants": {"team-a": {"limits": own}}}
    return settings_of(**({} if general is None else {"limits": general}), **tenants)


FACES: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, FaceLimits]] = {
    "built in": (None, None, FaceLimits(lines=50_000, bytes=200_000_000)),
    "one for all": ({"openai": {"lines": 10}}, None, FaceLimits(lines=10, bytes=200_000_000)),
    "one lifted for all": ({"openai": {"bytes": None}}, None, FaceLimits(lines=50_000, bytes=None)),
    "one for the tenant": (None, {"openai": {"lines": 10}}, FaceLimits(lines=10, bytes=200_000_000)),
    "one over another": (
        {"openai": {"lines": 10, "bytes": 5}},
        {"openai": {"lines": 20}},
        FaceLimits(lines=20, bytes=5),
    ),
    "one lifted for the tenant": (
        {"openai": {"lines": 10}},
        {"openai": {"lines": None}},
        FaceLimits(lines=None, bytes=200_000_000),
    ),
    "another face's": ({"paths": {"lines": 1}}, {"paths": {"lines": 2}}, FaceLimits(lines=50_000, bytes=200_000_000)),
    "nothing of its own": ({"openai": {"lines": 10}}, {}, FaceLimits(lines=10, bytes=200_000_000)),
}


@pytest.mark.parametrize(("general", "own", "expected"), FACES.values(), ids=list(FACES))
def test_a_files_limits(general: dict[str, Any] | None, own: dict[str, Any] | None, expected: FaceLimits) -> None:
    limits = limits_with(general, own).face_limits("team-a", "openai")
    assert (limits.lines, limits.bytes) == (expected.lines, expected.bytes)


def test_inputs_of_paths_have_a_limit_of_their_own() -> None:
    limits = settings_of().face_limits("team-a", "paths")
    assert (limits.lines, limits.bytes) == (150_000, None)


def test_another_tenant_is_not_concerned() -> None:
    settings = limits_with(None, {"openai": {"lines": None}, "tenant": {"activeBatches": 1}})
    assert settings.face_limits("team-b", "openai").lines == 50_000
    assert settings.tenant_limits("team-b").active_batches == 100


TENANTS: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, TenantLimits]] = {
    "built in": (None, None, TenantLimits(active_batches=100, requests_per_minute=6000)),
    "one for all": (
        {"tenant": {"requestsPerMinute": 60}},
        None,
        TenantLimits(active_batches=100, requests_per_minute=60),
    ),
    "one over another": (
        {"tenant": {"requestsPerMinute": 60, "burst": 5}},
        {"tenant": {"requestsPerMinute": 600}},
        TenantLimits(active_batches=100, requests_per_minute=600, burst=5),
    ),
    "lifted": (
        {"tenant": {"activeBatches": 1}},
        {"tenant": {"activeBatches": None, "requestsPerMinute": None}},
        TenantLimits(active_batches=None, requests_per_minute=None),
    ),
}


@pytest.mark.parametrize(("general", "own", "expected"), TENANTS.values(), ids=list(TENANTS))
def test_a_tenants_limits(general: dict[str, Any] | None, own: dict[str, Any] | None, expected: TenantLimits) -> None:
    assert limits_with(general, own).tenant_limits("team-a").model_dump() == expected.model_dump()


def test_a_tenants_workers_may_reach_the_storage_in_their_own_way() -> None:
    settings = settings_of(
        storage={"credentialsSecretRef": {"name": "all"}},
        tenants={"team-a": {"storage": {"credentialsSecretRef": {"name": "own"}}}, "team-b": {}},
    )
    references = [settings.worker_storage(tenant).credentials_secret_ref for tenant in ("team-a", "team-b", "team-c")]
    assert [reference.name if reference else None for reference in references] == ["own", "all", "all"]
