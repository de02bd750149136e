"""manifests/vllm-cpu: the same server as manifests/vllm, without a GPU, twice."""

from pathlib import Path

import pytest
from hack.vllm.deployment import IMAGE

from fixtures.cluster import Cluster
from fixtures.rendered import Manifests, container, flags, pod, pod_labels, rendered

pytestmark = pytest.mark.cluster

NAMES = ("vllm", "vllm-embedding")
# What the overlay sets for itself; the other flags are those of manifests/vllm.
OWN = {
    *("--model", "--served-model-name", "--max-model-len", "--gpu-memory-utilization", "--enforce-eager"),
    *("--enable-lora", "--lora-modules", "--enable-auto-tool-choice", "--tool-call-parser"),
    "--structured-outputs-config",
}


@pytest.fixture(scope="module")
def base(cluster: Cluster) -> Manifests:
    return rendered(cluster, "vllm")


@pytest.fixture(scope="module")
def overlay(cluster: Cluster) -> Manifests:
    return rendered(cluster, "vllm-cpu")


def test_it_has_two_servers_and_their_services_in_a_namespace_of_their_own(
    overlay: Manifests,
) -> None:
    assert set(overlay) == {
        ("Namespace", "batchwright-vllm"),
        *(("Deployment", name) for name in NAMES),
        *(("Service", name) for name in (*NAMES, "vllm-replicas")),
    }
    namespaces = {
        manifest["metadata"].get("namespace") for (kind, _), manifest in overlay.items() if kind != "Namespace"
    }
    assert namespaces == {"batchwright-vllm"}


@pytest.mark.parametrize(
    ("service", "deployment"), [("vllm", "vllm"), ("vllm-embedding", "vllm-embedding"), ("vllm-replicas", "vllm")]
)
def test_a_service_finds_its_own_pods_and_no_others(overlay: Manifests, service: str, deployment: str) -> None:
    selector = overlay["Service", service]["spec"]["selector"]
    found = [name for name in NAMES if selector.items() <= pod_labels(overlay, name).items()]
    assert found == [deployment]
    assert overlay["Service", service]["spec"]["ports"][0]["port"] == 8000


def test_the_replicas_are_behind_a_headless_service(overlay: Manifests) -> None:
    assert overlay["Service", "vllm-replicas"]["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("name", NAMES)
def test_flags_are_those_of_the_server_on_a_gpu_but_for_a_few(base: Manifests, overlay: Manifests, name: str) -> None:
    shared = {flag: value for flag, value in flags(overlay, name).items() if flag not in OWN}
    assert shared == {flag: value for flag, value in flags(base, "vllm").items() if flag not in OWN}


@pytest.mark.parametrize(("name", "model"), [("vllm", "tiny"), ("vllm-embedding", "tiny-embedding")])
def test_each_serves_its_model_from_the_node(overlay: Manifests, name: str, model: str) -> None:
    mounts = {mount["mountPath"]: mount for mount in container(overlay, name)["volumeMounts"]}
    path = Path(flags(overlay, name)["--model"])
    assert path.name == flags(overlay, name)["--served-model-name"] == model
    assert mounts[str(path.parent)]["readOnly"] is True
    environment = {variable["name"]: variable.get("value") for variable in container(overlay, name)["env"]}
    assert mounts[str(environment["PYTHONPATH"])]["readOnly"] is True


@pytest.mark.parametrize("name", NAMES)
def test_it_needs_no_gpu_and_no_volume_of_the_cluster(overlay: Manifests, name: str) -> None:
    assert set(container(overlay, name)["resources"]["limits"]) == {"memory"}
    kinds = {next(key for key in volume if key != "name") for volume in pod(overlay, name)["volumes"]}
    assert kinds == {"emptyDir", "hostPath"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe", "lifecycle"])
def test_probes_and_shutdown_are_those_of_the_server_on_a_gpu(
    base: Manifests, overlay: Manifests, name: str, probe: str
) -> None:
    assert container(overlay, name)[probe] == container(base, "vllm")[probe]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_namespace_allows_for_the_mounts_is_not_used_otherwise(
    base: Manifests, overlay: Manifests, name: str
) -> None:
    assert overlay["Namespace", "batchwright-vllm"]["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "privileged"
    }
    assert pod(overlay, name)["securityContext"] == pod(base, "vllm")["securityContext"]
    assert container(overlay, name)["securityContext"] == container(base, "vllm")["securityContext"]
    assert pod(overlay, name)["enableServiceLinks"] is False


def test_the_image_is_the_one_that_is_built(overlay: Manifests) -> None:
    assert {container(overlay, name)["image"] for name in NAMES} == {IMAGE.reference}
