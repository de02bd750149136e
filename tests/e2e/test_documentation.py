"""The manual is true: every command in a `console` block of the README and the docs is run, in order.

`make test` stands aside, since this is it. Blocks marked `sh` hold commands with places of your own (REGISTRY), which
nobody can run as they stand.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fixtures.cluster import ROOT, Cluster

MANUAL = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
GUIDE = ROOT / "docs" / "install.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_HERE = {"make test"}
PATIENCE_SECONDS = 900


def commands(document: Path) -> Iterator[str]:
    """The commands of a document's console blocks."""
    for block in BLOCK.findall(document.read_text()):
        yield from (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))


ALL = [(document.relative_to(ROOT), command) for document in MANUAL for command in commands(document)]


def test_the_readme_has_its_commands() -> None:
    found = [command for _, command in ALL]
    assert {"make demo", "make test", "make try"} <= set(found)


@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize(
    ("document", "command"),
    [row for row in ALL if row[1] not in NOT_HERE],
    ids=[f"{document}: {command}" for document, command in ALL if command not in NOT_HERE],
)
def test_a_command_of_the_manual_works(cluster: Cluster, document: Path, command: str) -> None:
    folder = Path(cluster.kubectl_program).parent
    environment = os.environ | {
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{document}: $ {command}\n{done.stdout}"


def test_the_overlay_of_the_installation_guide_names_both_images(cluster: Cluster) -> None:
    (overlay,) = re.findall(r"^```yaml\n(# kustomization\.yaml\n.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".overlay-") as folder:
        Path(folder, "kustomization.yaml").write_text(overlay.replace("- manifests/base", "- ../manifests/base"))
        built = list(yaml.safe_load_all(cluster.kubectl("kustomize", folder)))
    (deployment,) = [item for item in built if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert container["image"] == "REGISTRY/batchwright-operator:0.1.0"
    assert environment["BATCHWRIGHT_WORKER_IMAGE"] == "REGISTRY/batchwright-worker:0.1.0"
    assert environment["BATCHWRIGHT_DEFAULT_SERVER_URL"] == "http://vllm.models.svc:8000"
    assert environment["HOME"] == "/tmp"
