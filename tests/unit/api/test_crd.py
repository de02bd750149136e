"""The CRD: structural, bounded everywhere, explained everywhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchwright.api import defaults
from batchwright.api.changes import FIELD_CHANGES, change_of
from batchwright.api.crd import custom_resource_definition
from batchwright.api.duration import format_duration
from batchwright.api.rules import SPEC_RULES

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
CRD = custom_resource_definition()
VERSION = CRD["spec"]["versions"][0]
SCHEMA: Schema = VERSION["schema"]["openAPIV3Schema"]
SPEC: Schema = SCHEMA["properties"]["spec"]
STATUS: Schema = SCHEMA["properties"]["status"]

# Parts of a pod that Kubernetes itself checks when the Job is created. Everything else is spelled out.
PARTS_OF_A_POD = {
    "worker.resources",
    "worker.tolerations[]",
    "worker.affinity",
    "worker.volumes[]",
    "worker.volumeMounts[]",
    "worker.env[]",
}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Each schema under one, with its path: `worker.env[]` for items of a list, `metadata{}` for values of a map."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def fields(schema: Schema) -> list[tuple[str, Schema]]:
    """Each field that a person can write, with its path."""
    return [(path, node) for path, node in nodes(schema) if path and not path.endswith(("[]", "{}"))]


def required_fields(schema: Schema) -> set[str]:
    return {f"{path}.{name}" if path else name for path, node in nodes(schema) for name in node.get("required", ())}


ALL = [*nodes(SPEC, "spec"), *nodes(STATUS, "status")]
OPTIONAL = [(path, node) for path, node in fields(SPEC) if path not in required_fields(SPEC)]


@pytest.mark.parametrize(("path", "node"), ALL, ids=[path for path, _ in ALL])
def test_the_schema_is_structural(path: str, node: Schema) -> None:
    """Kubernetes, "Specifying a structural schema"; a default would make GitOps tools see a difference for ever."""
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "const", "title", "default", "definitions"}
    assert not forbidden & node.keys()
    assert node.get("additionalProperties") is not False
    assert isinstance(node.get("exclusiveMinimum", True), bool)
    assert ("type" in node) != (node.get("x-kubernetes-int-or-string") is True)


@pytest.mark.parametrize(("path", "node"), ALL, ids=[path for path, _ in ALL])
def test_everything_is_bounded(path: str, node: Schema) -> None:
    """The API server estimates the cost of CEL rules from these bounds, and etcd's objects end at 1.5 MB."""
    match node.get("type"):
        case "string":
            assert {"maxLength", "enum"} & node.keys() or node.get("format") == "date-time"
        case "array":
            assert "maxItems" in node
        case "object" if "additionalProperties" in node:
            assert "maxProperties" in node
        case "object" if "properties" not in node:
            assert node.get(PRESERVE) is True
        case "integer":
            assert {"maximum", "format"} & node.keys()
        case None:
            assert "maxLength" in node


def test_only_parts_of_a_pod_are_left_to_kubernetes() -> None:
    assert {path for path, node in nodes(SPEC) if node.get(PRESERVE)} == PARTS_OF_A_POD
    assert not [path for path, node in nodes(STATUS) if node.get(PRESERVE)]


@pytest.mark.parametrize(
    ("path", "node"), fields(STATUS) + fields(SPEC), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_field_is_explained_in_sentences(path: str, node: Schema) -> None:
    description = node.get("description", "")
    assert len(description) > 10
    assert description.endswith(".")
    assert "\n" not in description
    assert "  " not in description


@pytest.mark.parametrize(("path", "node"), OPTIONAL, ids=[path for path, _ in OPTIONAL])
def test_every_optional_field_says_its_default(path: str, node: Schema) -> None:
    assert "Default: " in node["description"]


UNITS = {
    "server.service.port": "a number",
    "input.limits.lines": "Requests",
    "input.limits.bytes": "Bytes",
    "completionWindow": "Go duration",
    "sharding.linesPerShard": "Lines",
    "sharding.parallelism": "Worker pods",
    "requests.timeout": "Go duration",
    "requests.retries": "Tries",
    "requests.maxConcurrency": "Requests in flight",
    "requests.priority": "a lower number",
    "requests.maxFailures": "Failed requests",
    "ttlSecondsAfterFinished": "Seconds",
}


def test_every_quantity_says_its_unit() -> None:
    quantities = {
        path: node["description"]
        for path, node in fields(SPEC)
        if node.get("type") == "integer" or "x-kubernetes-int-or-string" in node or "ns|us" in node.get("pattern", "")
    }
    assert quantities.keys() == UNITS.keys()
    assert [path for path, unit in UNITS.items() if unit not in quantities[path]] == []


DEFAULTS = {
    "server.service.port": str(defaults.DEFAULT_SERVICE_PORT),
    "server.apiKeySecretRef.key": defaults.DEFAULT_API_KEY,
    "server.caBundleConfigMapRef.key": defaults.DEFAULT_CA_KEY,
    "storage.region": defaults.DEFAULT_REGION,
    "sharding.parallelism": str(defaults.DEFAULT_PARALLELISM),
    "requests.timeout": format_duration(defaults.DEFAULT_TIMEOUT),
    "requests.retries": str(defaults.DEFAULT_RETRIES),
    "requests.maxConcurrency": str(defaults.DEFAULT_MAX_CONCURRENCY),
}


@pytest.mark.parametrize(("path", "value"), DEFAULTS.items(), ids=list(DEFAULTS))
def test_the_default_that_is_said_is_the_one_that_is_applied(path: str, value: str) -> None:
    description = dict(fields(SPEC))[path]["description"]
    assert re.search(rf"Default: .*\b{re.escape(value)}\b", description)


def test_every_field_says_whether_it_may_change() -> None:
    assert [path for path, node in fields(SPEC) if "properties" not in node and change_of(path) is None] == []
    assert {entry.path for entry in FIELD_CHANGES} <= {path for path, _ in fields(SPEC)}


def test_what_never_changes_says_so() -> None:
    fixed = {entry.path for entry in FIELD_CHANGES if entry.effect == "never"}
    said = {path for path, node in fields(SPEC) if "Can't be changed." in node["description"]}
    assert fixed == said
    assert fixed == {rule.field_path[1:] for rule in SPEC_RULES if rule.field_path} - {"cancel"}


def test_the_rules_name_fields_that_exist() -> None:
    """The API server refuses a CRD whose fieldPath leads nowhere."""
    paths = {f".{path}" for path, _ in fields(SPEC)}
    assert {rule.field_path for rule in SPEC_RULES} <= paths


def test_names_and_columns_are_the_documented_ones() -> None:
    names = CRD["spec"]["names"]
    assert (names["plural"], names["singular"], names["shortNames"]) == ("batchjobs", "batchjob", ["bj"])
    assert names["categories"] == ["batchwright"]
    assert VERSION["subresources"] == {"status": {}}
    columns = [(column["name"], column.get("priority", 0)) for column in VERSION["additionalPrinterColumns"]]
    assert columns == [
        *((name, 0) for name in ("Phase", "Progress", "Failed", "Rate", "ETA", "Age")),
        ("Output", 1),
        ("Message", 1),
    ]


def test_columns_read_fields_that_exist() -> None:
    known = {f".status.{path}" for path, _ in fields(STATUS)} | {".metadata.creationTimestamp"}
    assert {column["jsonPath"] for column in VERSION["additionalPrinterColumns"]} <= known


def test_conditions_merge_by_type() -> None:
    conditions = STATUS["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == [
        "type",
        "status",
        "observedGeneration",
        "lastTransitionTime",
        "reason",
        "message",
    ]


def test_times_have_a_format() -> None:
    times = {path: node.get("format") for path, node in fields(STATUS) if re.search(r"(At|Time)$", path)}
    assert len(times) >= 11
    assert set(times.values()) == {"date-time"}


def test_client_side_apply_can_hold_it() -> None:
    """`kubectl apply` keeps the object in an annotation, and annotations end at 262,144 bytes."""
    committed = Path(__file__).parents[3] / "crds" / "batchjobs.yaml"
    assert committed.stat().st_size < 131_072
