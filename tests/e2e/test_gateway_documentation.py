"""The gateway's manual is true: its manifests are taken, its settings can be used.

What a reader types is run by test_gateway_clients.py, in one shell; lines of `console` blocks by test_documentation.py.
"""

from pathlib import Path
from typing import Any

import yaml

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.settings import parse_settings, parse_yaml
from e2e.gateway_manual import manifest
from fixtures.cluster import ROOT, Cluster


def test_the_overlay_of_the_manual_replaces_image_settings_and_models(cluster: Cluster, tmp_path: Path) -> None:
    overlay = manifest("# kustomization.yaml\n").replace("- manifests/gateway", "- gateway")
    (tmp_path / "kustomization.yaml").write_text(overlay)
    (tmp_path / "settings.yaml").write_text(manifest("# settings.yaml\n"))
    (tmp_path / "models.yaml").write_text(manifest("# models.yaml\n"))
    (tmp_path / "gateway").mkdir()
    for file in (ROOT / "manifests" / "gateway").iterdir():
        (tmp_path / "gateway" / file.name).write_text(file.read_text())

    built = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(tmp_path))))

    (deployment,) = [item for item in built if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "REGISTRY/batchwright-gateway:0.1.0"
    maps: dict[str, dict[str, Any]] = {
        item["metadata"]["name"]: item["data"] for item in built if item["kind"] == "ConfigMap"
    }
    settings = parse_settings(maps["gateway"]["settings.yaml"], "settings.yaml")
    assert settings.face_limits("team-a", "openai").lines == 200_000
    assert settings.tenant_limits("team-a").active_batches == 20
    catalogue = parse_yaml(Catalogue, maps["gateway-models"]["models.yaml"], "models.yaml")
    assert [entry.batch for entry in catalogue.models] == [True, True, False]


def test_the_cluster_takes_the_ingress_of_the_manual(cluster: Cluster) -> None:
    text = manifest("# settings.yaml: rootPath: /batch\n")
    assert "created" in cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
