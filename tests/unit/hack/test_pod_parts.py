"""The CRD as it is written: parts of a pod are spelled out, so that nothing can be nested without end."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hack.cluster.paths import REPOSITORY
from hack.pod_parts import PARTS, part

Schema = dict[str, Any]
WRITTEN = yaml.safe_load((REPOSITORY / "crds" / "batchjobs.yaml").read_text())
SPEC: Schema = WRITTEN["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
MOST_LEVELS = 20


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Each schema under one, with the names on the way to it."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}/{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}/{name}")


ALL = dict(nodes(SPEC))


def test_no_object_is_open() -> None:
    assert not [path for path, node in ALL.items() if "x-kubernetes-preserve-unknown-fields" in node]
    objects = {path: node for path, node in ALL.items() if node.get("type") == "object"}
    assert not [path for path, node in objects.items() if not {"properties", "additionalProperties"} & node.keys()]
    assert max(path.count("/") for path in ALL) < MOST_LEVELS


def test_everything_has_one_type() -> None:
    assert not [path for path, node in ALL.items() if ("type" in node) == ("x-kubernetes-int-or-string" in node)]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("resources/properties/limits/additionalProperties", {"x-kubernetes-int-or-string": True}),
        ("tolerations/items/properties/tolerationSeconds", {"type": "integer"}),
        ("volumes/items/properties/emptyDir/properties/sizeLimit", {"x-kubernetes-int-or-string": True}),
        ("volumes/items/properties/persistentVolumeClaim/properties/readOnly", {"type": "boolean"}),
        ("volumeMounts/items/properties/mountPath", {"type": "string"}),
        ("env/items/properties/valueFrom/properties/secretKeyRef/properties/key", {"type": "string"}),
        (
            "affinity/properties/nodeAffinity/properties/requiredDuringSchedulingIgnoredDuringExecution"
            "/properties/nodeSelectorTerms/items/properties/matchExpressions/items/properties/values",
            {"type": "array", "items": {"type": "string"}},
        ),
    ],
)
def test_fields_are_those_of_kubernetes(path: str, schema: Schema) -> None:
    node = SPEC["properties"]["worker"]["properties"]
    for name in path.split("/"):
        node = node[name]
    assert node == schema


def test_the_template_of_a_claim_has_labels_and_annotations_alone() -> None:
    template = part("V1Volume")["properties"]["ephemeral"]["properties"]["volumeClaimTemplate"]
    assert template["properties"]["metadata"]["properties"].keys() == {"labels", "annotations"}


def test_what_the_models_say_of_a_part_stays() -> None:
    worker = SPEC["properties"]["worker"]["properties"]
    assert not [name for name in PARTS if not worker[name].get("description")]
    assert worker["volumes"]["maxItems"] == 64
