from typing import Any

import pytest
from pydantic import ValidationError

from batchwright.gateway.settings import Settings
from batchwright.gateway.volumes import VOLUME, worker_volumes

SHARED = {"claimName": "data", "mountPath": "/data"}


def settings_of(batch_path: str = "s3://batches/", **shared: Any) -> Settings:
    return Settings.model_validate({"batchPath": batch_path, "sharedVolume": SHARED | shared})


def mount(inside: str, **more: Any) -> dict[str, Any]:
    return {"name": VOLUME, "mountPath": f"/data/{inside}", "subPath": inside, **more}


def mounts_of(settings: Settings, namespace: str = "team-a") -> list[dict[str, Any]]:
    return worker_volumes(settings, namespace)[1]


def test_a_worker_mounts_its_tenants_part_and_shared_roots_read_only_and_nothing_else() -> None:
    volumes, mounts = worker_volumes(settings_of(sharedRoots=["models", "sets/public"]), "team-a")
    assert volumes == [{"name": VOLUME, "persistentVolumeClaim": {"claimName": "data"}}]
    assert mounts == [
        mount("tenants/team-a"),
        mount("models", readOnly=True),
        mount("sets/public", readOnly=True),
    ]


@pytest.mark.parametrize(
    ("batch_path", "tenant_root", "expected"),
    [
        ("s3://batches/", "tenants/{tenant}", ["tenants/team-a"]),
        ("file:///elsewhere/", "tenants/{tenant}", ["tenants/team-a"]),
        ("file:///database/", "tenants/{tenant}", ["tenants/team-a"]),
        ("file:///data/batches/", "tenants/{tenant}", ["tenants/team-a", "batches/team-a"]),
        ("file:///data/tenants/", "tenants/{tenant}", ["tenants/team-a"]),
        ("file:///data/tenants/", "tenants/{tenant}/home", ["tenants/team-a"]),
        ("file:///data/", "{tenant}/home", ["team-a"]),
    ],
)
def test_the_tenants_folder_of_batch_path_is_mounted_where_it_lies_on_the_volume(
    batch_path: str, tenant_root: str, expected: list[str]
) -> None:
    assert mounts_of(settings_of(batch_path, tenantRoot=tenant_root)) == [mount(inside) for inside in expected]


def test_what_the_settings_give_workers_stays() -> None:
    cache = {"name": "cache", "emptyDir": {}}
    place = {"name": "cache", "mountPath": "/cache"}
    settings = Settings.model_validate(
        {
            "batchPath": "s3://batches/",
            "sharedVolume": SHARED,
            "batchJobs": {"worker": {"volumes": [cache], "volumeMounts": [place]}},
        }
    )
    volumes, mounts = worker_volumes(settings, "team-a")
    assert volumes[0] == cache
    assert mounts == [place, mount("tenants/team-a")]


def test_without_a_shared_volume_there_is_only_what_the_settings_give() -> None:
    assert worker_volumes(Settings.model_validate({"batchPath": "file:///data/"}), "team-a") == ([], [])


@pytest.mark.parametrize(
    ("batch_path", "shared", "named"),
    [
        ("file:///data/", {}, "tenantRoot"),  # a tenant called `tenants` would own all tenants' parts
        ("file:///data/tenants/team-x/", {}, "tenantRoot"),  # team-x would own everybody's uploads
        ("file:///data/tenants/team-x/deep/", {}, "tenantRoot"),
        ("file:///data/batches/", {"sharedRoots": ["batches"]}, "sharedRoots"),
        ("file:///data/all/batches/", {"sharedRoots": ["all"]}, "sharedRoots"),
        ("file:///data/batches/", {"sharedRoots": ["batches/team-x"]}, "sharedRoots"),
        ("file:///", {}, "mountPath"),
        ("s3://batches/", {"sharedRoots": ["tenants"]}, "sharedRoots"),
        ("s3://batches/", {"sharedRoots": ["tenants/team-b"]}, "sharedRoots"),
        ("s3://batches/", {"tenantRoot": "{tenant}", "sharedRoots": ["models"]}, "sharedRoots"),
        ("s3://batches/", {"tenantRoot": "tenants"}, "tenant"),
        ("s3://batches/", {"tenantRoot": "../{tenant}"}, "tenant"),
        ("s3://batches/", {"tenantRoot": "/{tenant}"}, "tenant"),
        ("s3://batches/", {"mountPath": "/data:ro"}, "mountPath"),
        ("s3://batches/", {"mountPath": "/data/../etc"}, "mountPath"),
        ("s3://batches/", {"sharedRoots": ["a//b"]}, "sharedRoots"),
    ],
)
def test_settings_by_which_tenants_would_meet_are_refused(batch_path: str, shared: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        settings_of(batch_path, **shared)


@pytest.mark.parametrize(
    ("batch_path", "shared"),
    [
        ("file:///data/batches/", {"sharedRoots": ["models"]}),
        ("file:///data/tenants/", {}),
        ("file:///data/tenants/", {"tenantRoot": "tenants/{tenant}/home", "sharedRoots": ["public"]}),
        ("file:///elsewhere/", {"sharedRoots": ["elsewhere"]}),
    ],
)
def test_settings_that_keep_tenants_apart_are_taken(batch_path: str, shared: dict[str, Any]) -> None:
    settings_of(batch_path, **shared)
