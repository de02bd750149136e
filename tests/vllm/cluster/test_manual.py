"""The manual is true about the real vLLM: every command in a `console` block that names it is run, in order."""

from pathlib import Path

import pytest

from fixtures import manual
from fixtures.cluster import Cluster

COMMANDS = manual.commands(with_vllm=True)


def test_the_readme_has_its_commands() -> None:
    assert {"make vllm", "make vllm-up", "make demo VLLM=1"} <= {command for _, command in COMMANDS}


@pytest.mark.timeout(manual.PATIENCE_SECONDS)
@pytest.mark.parametrize(
    ("document", "command"), COMMANDS, ids=[f"{document}: {command}" for document, command in COMMANDS]
)
def test_a_command_of_the_manual_works(cluster: Cluster, document: Path, command: str) -> None:
    manual.run(cluster, document, command)
