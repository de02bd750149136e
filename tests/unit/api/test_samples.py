"""The sample manifests are what the models take, and between them they show every field."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hack.reference import fields

from batchwright.api.batchjob import BatchJob, BatchJobSpec
from batchwright.api.crd import structural

FOLDER = Path(__file__).parents[3] / "manifests" / "samples"
SAMPLES = [
    (path, document)
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document.get("kind") == "BatchJob"
]
SPEC = structural(BatchJobSpec.model_json_schema(by_alias=True))


def paths(value: Any, prefix: str = "") -> set[str]:
    """The paths of all fields that a document sets."""
    if isinstance(value, list):
        return set().union(*(paths(item, f"{prefix}[]") for item in value))
    if not isinstance(value, dict):
        return set()
    found = {f"{prefix}.{name}".lstrip(".") for name in value}
    return found.union(*(paths(child, f"{prefix}.{name}".lstrip(".")) for name, child in value.items()))


def test_there_are_samples() -> None:
    assert {path.stem for path, _ in SAMPLES} >= {
        "smallest",
        "vllm",
        "embeddings",
        "volume",
        "quickstart",
        "every-field",
    }


@pytest.mark.parametrize(("path", "document"), SAMPLES, ids=[path.name for path, _ in SAMPLES])
def test_a_sample_is_taken(path: Path, document: dict[str, Any]) -> None:
    BatchJob.model_validate(document)


def test_samples_can_be_applied_side_by_side() -> None:
    """Under fixed names: generateName would make GitOps tools create another one each time."""
    names = [document["metadata"]["name"] for _, document in SAMPLES]
    assert len(names) == len(set(names))


def test_every_field_is_shown() -> None:
    shown = paths(next(document for path, document in SAMPLES if path.stem == "every-field")["spec"])
    known = {path for path, _, _ in fields(SPEC) if not re.match(r"(input|output)\.storage\.", path)}
    assert known - shown == {"server.url"}  # it excludes server.service
