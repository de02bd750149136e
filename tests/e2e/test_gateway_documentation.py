"""The gateway's manual is true: its session is run as it stands, its manifests are taken, its settings can be used.

Lines of `console` blocks are run by test_documentation.py, each for itself.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.settings import parse_settings, parse_yaml
from e2e.quickstart import Quickstart
from fixtures.cluster import ROOT, Cluster

MANUAL = (ROOT / "docs" / "gateway.md").read_text()
PATIENCE_SECONDS = 240


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Language and text of the manual's fenced blocks in these languages, in order."""
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", MANUAL, re.MULTILINE | re.DOTALL):
        if language in languages:
            yield language, text


def manifest(first_line: str) -> str:
    """The yaml block that begins so."""
    (found,) = [text for _, text in blocks("yaml") if text.startswith(first_line)]
    return found


def session() -> str:
    """Everything that a reader types, in one shell."""
    steps = (
        text if language == "bash" else f"python - <<'PYTHON'\n{text}PYTHON\n"
        for language, text in blocks("bash", "python")
    )
    return "set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n" + "".join(steps)


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_the_session_of_the_manual_works(quickstart: Quickstart, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    folders = (Path(sys.executable).parent, Path(quickstart.cluster.kubectl_program).parent)
    environment = os.environ | {
        "KUBECONFIG": str(quickstart.cluster.kubeconfig),
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        "INTERVAL": "1",
    }
    done = subprocess.run(
        ["bash", "-c", session()],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "completed BatchRequestCounts(completed=2, failed=0, total=2)" in done.stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


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
