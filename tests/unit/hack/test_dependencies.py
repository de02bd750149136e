"""Each dependency is bounded, used, and argued for."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ARGUED = (ROOT / "docs" / "adr" / "0003-dependencies.md").read_text()
MODULES = {"pyyaml": "yaml", "prometheus-client": "prometheus_client", "boto3": "botocore"}

BARE = PROJECT["dependencies"]
EXTRAS = [*PROJECT["optional-dependencies"]["kube"], *PROJECT["optional-dependencies"]["operator"]]
RUNTIME = [requirement for requirement in (*BARE, *EXTRAS) if not requirement.startswith("batchwright")]


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9-]+", requirement)
    assert match is not None
    return match[0].lower()


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
def test_a_dependency_has_a_lower_bound(requirement: str) -> None:
    """Without one, a resolver in trouble falls back to a version of years ago."""
    assert ">=" in requirement


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
def test_a_dependency_is_argued_for(requirement: str) -> None:
    assert f"\n| {name_of(requirement)} |" in ARGUED


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
def test_a_dependency_is_used(requirement: str) -> None:
    module = MODULES.get(name_of(requirement), name_of(requirement))
    imported = re.compile(rf"^\s*(import|from) {module}\b", re.MULTILINE)
    assert any(imported.search(path.read_text()) for path in (ROOT / "operator" / "batchwright").rglob("*.py"))


@pytest.mark.parametrize("requirement", RUNTIME, ids=name_of)
@pytest.mark.parametrize("lock", ["operator.txt", "dev.txt"])
def test_a_dependency_is_locked_with_hashes(requirement: str, lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    assert re.search(rf"^{name_of(requirement)}==\S+( ;[^\\]*)? \\\n    --hash=sha256:", text, re.MULTILINE)


def test_the_worker_has_neither_kopf_nor_kubernetes() -> None:
    locked = (ROOT / "requirements" / "worker.txt").read_text()
    assert re.findall(r"^(kopf|kubernetes|prometheus-client|fastapi)==", locked, re.MULTILINE) == []
