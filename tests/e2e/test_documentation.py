"""The manual is true: every command in a `console` block of the README and the docs is run, in order.

`make test` stands aside, since this is it; so do commands that need a real vLLM, which tests/vllm runs. Blocks marked
`sh` hold commands with places of your own (REGISTRY), which nobody can run as they stand.
"""

import re
import tempfile
from pathlib import Path

import pytest
import yaml

from fixtures import manual
from fixtures.cluster import ROOT, Cluster

GUIDE = ROOT / "docs" / "install.md"
COMMANDS = manual.commands(with_vllm=False)


def test_the_readme_has_its_commands() -> None:
    assert {"make demo", "make try"} <= {command for _, command in COMMANDS}
    assert "\n$ make test\n" in (ROOT / "README.md").read_text()


@pytest.mark.timeout(manual.PATIENCE_SECONDS)
@pytest.mark.parametrize(
    ("document", "command"), COMMANDS, ids=[f"{document}: {command}" for document, command in COMMANDS]
)
def test_a_command_of_the_manual_works(cluster: Cluster, document: Path, command: str) -> None:
    manual.run(cluster, document, command)


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
