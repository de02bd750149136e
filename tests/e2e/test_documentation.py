"""The manual is true: every command in a `console` block of the README and the docs is run, in order.

`make test` stands aside, since this is it. Blocks marked `sh` hold commands with places of your own (REGISTRY), which
nobody can run as they stand.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.cluster import ROOT, Cluster

MANUAL = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
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


@pytest.mark.parametrize("document", MANUAL, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_of_the_manual_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
