"""The files and addresses that the cluster's services get."""

import ipaddress
import json
import tomllib
from pathlib import Path

import pytest
from hack.cluster import layout, node_configuration
from hack.cluster.images import COREDNS_IMAGE, SYSTEM_IMAGES
from hack.cluster.layout import NODES, Layout, Node
from hack.cluster.machine_cluster import COREDNS_MANIFEST

LAYOUT = Layout(Path("/state"), Path("/run/batchwright"))


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.name)
def test_every_file_of_a_node_can_be_read(node: Node) -> None:
    files = node_configuration.files(LAYOUT, node, cni_plugins=Path("/cni"), snapshotter="overlayfs")

    for name, text in files.items():
        if name.endswith((".json", ".conflist")):
            json.loads(text)
    assert tomllib.loads(files["containerd.toml"])["grpc"]["address"] == f"/run/batchwright/{node.name}/containerd.sock"


def test_nodes_share_no_address_and_no_group() -> None:
    assert len({node.address for node in NODES}) == len(NODES)
    assert len({node.cgroup for node in NODES}) == len(NODES)
    networks = [ipaddress.ip_network(node.pod_network) for node in NODES]
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)


def test_pods_services_and_nodes_have_networks_of_their_own() -> None:
    pods, services = ipaddress.ip_network(layout.POD_NETWORK), ipaddress.ip_network(layout.SERVICE_NETWORK)

    assert all(ipaddress.ip_network(node.pod_network).subnet_of(pods) for node in NODES)  # type: ignore[arg-type]
    assert not pods.overlaps(services)
    assert ipaddress.ip_address(layout.DNS_SERVICE) in services
    assert ipaddress.ip_address(layout.API_SERVICE) in services


def test_sockets_have_paths_that_the_kernel_takes() -> None:
    assert all(len(str(Layout(Path("/x" * 200)).containerd_socket(node))) <= 107 for node in NODES)


def test_the_images_that_nodes_name_are_those_that_they_get() -> None:
    loaded = {image.reference for image in SYSTEM_IMAGES}

    assert node_configuration.PAUSE_IMAGE in loaded
    assert COREDNS_IMAGE in loaded
    assert "image: $image" in COREDNS_MANIFEST.read_text()


def test_kubelet_never_removes_an_image_that_no_registry_has() -> None:
    assert node_configuration.kubelet(LAYOUT, NODES[0])["imageGCHighThresholdPercent"] == 100
