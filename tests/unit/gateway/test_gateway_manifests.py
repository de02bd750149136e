"""The gateway's manifests: what it may do, how its pods are kept, and settings that it takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchwright.api import names
from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.connecting import CA_BUNDLE, CATALOGUE_FILE, CREDENTIALS
from batchwright.gateway.identity.api_keys import decode_entries, find_key
from batchwright.gateway.serving import ABORT_SECONDS, PORT, SHUTDOWN_SECONDS
from batchwright.gateway.settings import SETTINGS_FILE, parse_settings, parse_yaml

ROOT = Path(__file__).resolve().parents[3] / "manifests"
GATEWAY, QUICKSTART = ROOT / "gateway", ROOT / "quickstart"
SETTINGS = [GATEWAY / "settings.yaml", QUICKSTART / "gateway" / "settings.yaml"]


def of_kind(kind: str) -> Iterator[dict[str, Any]]:
    for path in sorted(GATEWAY.glob("*.yaml")):
        yield from (one for one in yaml.safe_load_all(path.read_text()) if one.get("kind") == kind)


def only(kind: str) -> dict[str, Any]:
    (found,) = of_kind(kind)
    return found


@pytest.fixture
def pod() -> dict[str, Any]:
    spec = only("Deployment")["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


def mounted(pod: dict[str, Any], container: dict[str, Any], path: str) -> dict[str, Any]:
    """The volume that is mounted at a path."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert isinstance(mounts[path], dict)
    return mounts[path]


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_gateway_takes_its_settings(path: Path) -> None:
    settings = parse_settings(path.read_text(), path.name)
    assert settings.batch_path == "s3://batches/gateway/"
    secret = settings.storage.credentials_secret_ref
    assert secret is not None
    assert secret.name == "batchwright-storage"


def test_the_catalogue_of_the_quickstart_has_a_model_with_batch_and_one_without() -> None:
    catalogue = parse_yaml(Catalogue, (QUICKSTART / "gateway" / "models.yaml").read_text(), "models.yaml")
    assert {entry.model: entry.batch for entry in catalogue.models} == {"stub-model": True, "stub-interactive": False}
    assert {(entry.cluster, entry.framework) for entry in catalogue.models} == {("demo", "vllm")}


def test_the_gateway_may_do_what_it_needs_and_nothing_else() -> None:
    """No wildcard, no Secret but the one of API keys, and nothing of a tenant's but BatchJobs."""
    rights = {
        (role["kind"], group, resource): (set(rule["verbs"]), rule.get("resourceNames"))
        for kind in ("ClusterRole", "Role")
        for role in of_kind(kind)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if rule.get("resourceNames") or resource != "leases"
    }
    assert rights == {
        ("ClusterRole", "batchwright.dev", "batchjobs"): ({"get", "list", "create", "patch", "delete"}, None),
        ("ClusterRole", "authentication.k8s.io", "tokenreviews"): ({"create"}, None),
        ("ClusterRole", "authorization.k8s.io", "subjectaccessreviews"): ({"create"}, None),
        ("Role", "", "secrets"): ({"get"}, ["gateway-keys"]),
        ("Role", "coordination.k8s.io", "leases"): ({"get", "patch"}, ["batchwright-gateway"]),
    }
    (role,) = of_kind("Role")
    assert {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]} in role["rules"]
    assert role["metadata"]["namespace"] == "batchwright-system"


def test_the_service_finds_the_pods() -> None:
    service, deployment = only("Service"), only("Deployment")
    assert service["metadata"]["name"] == deployment["metadata"]["name"] == "gateway"
    (port,) = service["spec"]["ports"]
    assert port["port"] == 80
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = (
        service["spec"]["selector"],
        deployment["spec"]["selector"]["matchLabels"],
        only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    )
    assert all(selector.items() <= labels.items() for selector in selectors)


def test_ports_and_probes_are_those_that_the_gateway_serves(container: dict[str, Any]) -> None:
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("http", PORT)
    paths = {
        probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert all(container[probe]["httpGet"]["port"] == "http" for probe in paths)


def test_the_pods_are_restricted(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["enableServiceLinks"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_memory_and_spool_are_bounded(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert container["resources"]["limits"]["memory"] == "256Mi"
    spool = mounted(pod, container, names.SPOOL_DIRECTORY)["emptyDir"]["sizeLimit"]
    gibibytes = [
        int(size.removesuffix("Gi")) for size in (spool, container["resources"]["limits"]["ephemeral-storage"])
    ]
    assert gibibytes[0] < gibibytes[1]


def test_what_is_under_way_gets_its_time_to_end(pod: dict[str, Any], container: dict[str, Any]) -> None:
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pause + SHUTDOWN_SECONDS + ABORT_SECONDS + 5 <= pod["terminationGracePeriodSeconds"]


def test_settings_are_mounted_as_a_folder_that_is_renewed(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert all("subPath" not in mount for mount in container["volumeMounts"])
    assert SETTINGS_FILE.parent == CATALOGUE_FILE.parent
    sources = mounted(pod, container, str(SETTINGS_FILE.parent))["projected"]["sources"]
    assert [source["configMap"] for source in sources] == [
        {"name": "gateway"},
        {"name": "gateway-models", "optional": True},
    ]


def test_the_gateway_starts_without_storage_keys_of_its_own(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """With web identity there are none."""
    secret = mounted(pod, container, str(CREDENTIALS))["secret"]
    assert secret == {"secretName": "gateway-storage", "optional": True}


def test_the_stores_certificate_may_have_an_authority_of_its_own(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    authority = mounted(pod, container, str(CA_BUNDLE.parent))["configMap"]
    assert authority == {"name": "gateway-storage-ca", "optional": True}


@pytest.mark.parametrize(
    ("folder", "names"),
    [(GATEWAY, ["gateway"]), (QUICKSTART, ["gateway", "gateway-models"])],
    ids=["gateway", "quickstart"],
)
def test_config_maps_keep_their_names(folder: Path, names: list[str]) -> None:
    """Without the second one there is no catalogue; an empty one would refuse every model."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert [one["name"] for one in kustomization["configMapGenerator"]] == names
    assert kustomization["generatorOptions"] == {"disableNameSuffixHash": True}


def quickstart_secret(name: str) -> dict[str, str]:
    documents = yaml.safe_load_all((QUICKSTART / "gateway-secrets.yaml").read_text())
    (found,) = (one for one in documents if one["metadata"]["name"] == name)
    return dict(found["stringData"])


def test_the_demo_key_is_one_of_the_demo_tenant() -> None:
    entries, damaged = decode_entries({name: text.encode() for name, text in quickstart_secret("gateway-keys").items()})
    assert damaged == []
    entry = find_key(entries, quickstart_secret("gateway-demo-key")["key"])
    assert entry is not None
    assert (entry.namespace, entry.user, entry.admin) == ("batchwright-demo", "demo", False)


def test_the_gateway_of_the_quickstart_has_keys_that_its_storage_knows() -> None:
    documents = list(yaml.safe_load_all((QUICKSTART / "s3.yaml").read_text()))
    secrets = {one["metadata"]["name"]: one["stringData"] for one in documents if one["kind"] == "Secret"}
    users = json.loads(secrets["s3-users"]["users.json"])["accessAccounts"]
    known = {user["access"]: user["secret"] for user in users.values()}
    for keys in (quickstart_secret("gateway-storage"), secrets["batchwright-storage"]):
        assert known[keys["AWS_ACCESS_KEY_ID"]] == keys["AWS_SECRET_ACCESS_KEY"]
