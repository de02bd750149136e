"""manifests/vllm-replicas: the server of manifests/vllm in several replicas, of which one at a time may go."""

import re
import shlex
from typing import Any

import pytest

from fixtures.cluster import ROOT, Cluster
from fixtures.rendered import Manifests, container, flags, pod, pod_labels, rendered

pytestmark = pytest.mark.cluster

MANUAL = (ROOT / "docs" / "tuning.md").read_text()
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RELEASE_SECONDS = 40
"""To let go of the GPU."""
NAME_SERVER_SECONDS = 40
"""By which a worker may learn late that a replica goes: 30 s of CoreDNS' cache, 10 s between its lookups."""


@pytest.fixture(scope="module")
def base(cluster: Cluster) -> Manifests:
    return rendered(cluster, "vllm")


@pytest.fixture(scope="module")
def overlay(cluster: Cluster) -> Manifests:
    return rendered(cluster, "vllm-replicas")


def deployment(manifests: Manifests) -> dict[str, Any]:
    spec = manifests["Deployment", "vllm"]["spec"]
    assert isinstance(spec, dict)
    return spec


def volume_at(manifests: Manifests, path: str) -> dict[str, Any]:
    (name,) = (mount["name"] for mount in container(manifests)["volumeMounts"] if mount["mountPath"] == path)
    (volume,) = (volume for volume in pod(manifests)["volumes"] if volume["name"] == name)
    assert isinstance(volume, dict)
    return volume


def pause_seconds(manifests: Manifests) -> int:
    command, seconds = container(manifests)["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    return int(seconds)


def stop_seconds(manifests: Manifests) -> tuple[int, int, int]:
    """The pause before the server is told to stop, what it drains for, and what the pod is given for all."""
    return (
        pause_seconds(manifests),
        int(flags(manifests)["--shutdown-timeout"]),
        pod(manifests)["terminationGracePeriodSeconds"],
    )


def test_the_api_server_takes_it_as_the_manual_applies_it(cluster: Cluster, namespace: str) -> None:
    (command,) = (
        line for block in SHELL_BLOCK.findall(MANUAL) for line in block.splitlines() if "manifests/vllm" in line
    )
    program, *arguments = shlex.split(command.replace("NAMESPACE", namespace))
    assert program == "kubectl"
    arguments = [str(ROOT / text) if text.startswith("manifests/") else text for text in arguments]
    taken = cluster.kubectl(*arguments, "--dry-run=server", "--output=name").splitlines()
    assert sorted(taken) == [
        "deployment.apps/vllm",
        "poddisruptionbudget.policy/vllm",
        "service/vllm",
        "service/vllm-replicas",
    ]


def test_workers_find_each_replica_by_the_headless_service(overlay: Manifests) -> None:
    service = overlay["Service", "vllm-replicas"]["spec"]
    assert service["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in service
    assert service["selector"].items() <= pod_labels(overlay).items()
    # A headless Service maps no ports.
    assert service["ports"][0]["port"] == int(flags(overlay)["--port"])


def test_a_rollout_takes_one_at_a_time_and_needs_no_further_gpu(overlay: Manifests) -> None:
    assert deployment(overlay)["replicas"] >= 2
    assert deployment(overlay)["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_a_drain_takes_one_at_a_time(overlay: Manifests) -> None:
    budget = overlay["PodDisruptionBudget", "vllm"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= pod_labels(overlay).items()


def test_replicas_are_spread_over_nodes_as_far_as_there_are_some(overlay: Manifests) -> None:
    (constraint,) = pod(overlay)["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert constraint["labelSelector"]["matchLabels"].items() <= pod_labels(overlay).items()


def test_each_replica_has_a_cache_of_its_own_on_a_node_with_room_for_it(overlay: Manifests) -> None:
    assert not any(kind == "PersistentVolumeClaim" for kind, _ in overlay)
    cache = volume_at(overlay, "/cache")
    assert cache.keys() == {"name", "emptyDir"}
    assert cache["emptyDir"]["sizeLimit"] == container(overlay)["resources"]["requests"]["ephemeral-storage"]


def test_a_replica_goes_on_until_workers_know_and_requests_have_ended(base: Manifests, overlay: Manifests) -> None:
    assert pause_seconds(overlay) >= NAME_SERVER_SECONDS
    for manifests in (base, overlay):
        pause, drain, grace = stop_seconds(manifests)
        assert pause + drain + RELEASE_SECONDS == grace


@pytest.mark.parametrize("folder", ["vllm", "vllm-replicas"])
def test_the_manual_adds_up_the_seconds_of_the_manifests(cluster: Cluster, folder: str) -> None:
    pause, drain, grace = stop_seconds(rendered(cluster, folder))
    assert re.search(
        rf"^ *\| `manifests/{folder}` as it is \|.*\| {pause} \| {drain} \| {RELEASE_SECONDS} \| {grace} \|$",
        MANUAL,
        re.MULTILINE,
    )


def test_all_else_is_that_of_the_one_server(base: Manifests, overlay: Manifests) -> None:
    own = {"terminationGracePeriodSeconds", "topologySpreadConstraints", "containers", "volumes"}
    assert _without(own, pod(overlay)) == _without(own, pod(base))
    own = {"lifecycle", "resources"}
    assert _without(own, container(overlay)) == _without(own, container(base))
    assert container(overlay)["resources"]["limits"] == container(base)["resources"]["limits"]
    assert overlay["Service", "vllm"] == base["Service", "vllm"]


def _without(keys: set[str], mapping: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}
