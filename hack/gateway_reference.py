"""The reference of the gateway's settings in Markdown, made from their models."""

from collections.abc import Iterator
from typing import Any

from hack.reference import split_default, table
from pydantic import BaseModel

from batchwright.api import batchjob, running, worker_pods
from batchwright.api.duration import DURATION_PATTERN
from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.settings import Settings

HEAD = """\
<!-- Generated from operator/batchwright/gateway by `make generate`: don't edit. -->
# Settings of the gateway

`settings.yaml` in the ConfigMap `gateway`, read and checked at the start; a wrong one ends the gateway with a message
that names it. What they are for: [gateway.md](../gateway.md). Durations are written as in Go: `90s`, `3m`, `1h30m`.
Fields of a [BatchJob](batchjob.md) are written as there.
"""

CATALOGUE_HEAD = """\
## The catalogue

`models.yaml` in the ConfigMap `gateway-models`. A change is read without a restart.
"""

_ELSEWHERE = {
    name: f"as `spec.{field}` of a BatchJob"
    for name, field in {
        running.Requests.__name__: "requests",
        batchjob.Server.__name__: "server",
        running.Sharding.__name__: "sharding",
        batchjob.Storage.__name__: "storage",
        worker_pods.Worker.__name__: "worker",
    }.items()
}
"""Models whose fields stand in the BatchJob's reference."""

Schema = dict[str, Any]


def gateway_reference() -> str:
    """The whole page."""
    head = ("field", "type", "default", "meaning")
    return "\n".join([HEAD, table(head, _rows(Settings)), CATALOGUE_HEAD, table(head, _rows(Catalogue))])


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    schema = model.model_json_schema(by_alias=True)
    yield from _fields(schema, schema.get("$defs", {}), "", {})


def _fields(schema: Schema, models: Schema, prefix: str, seen: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """The rows of a model; `seen` has the path at which each other model was listed first."""
    for name, node in schema["properties"].items():
        path = f"{prefix}{name}"
        text, default = split_default(node.get("description", "").removesuffix(" Required."))
        held, step = _held(node, models)
        if held in seen:
            text += f" Fields as in `{seen[held]}`."
        required = name in schema.get("required", ())
        yield f"`{path}`", _type(node, models), "**required**" if required else default, text
        if held and held not in seen:
            seen[held] = path
            yield from _fields(models[held], models, f"{path}{step}.", seen)


def _held(node: Schema, models: Schema) -> tuple[str, str]:
    """The model that a field holds, itself or in a list or map, unless its fields stand in another reference."""
    for one in _alternatives(node):
        entries = [*one.get("patternProperties", {}).values(), one.get("additionalProperties")]
        for inner, step in ((one, ""), (one.get("items"), "[]"), *((entry, ".NAMESPACE") for entry in entries)):
            name = _named(inner)
            if name and name not in _ELSEWHERE and "properties" in models[name]:
                return name, step
    return "", ""


def _alternatives(node: Schema) -> list[Schema]:
    return [one for one in node.get("anyOf", [node]) if one.get("type") != "null"]


def _named(node: Any) -> str:
    """The name of the model that a schema refers to; empty where it is none."""
    return str(node.get("$ref", "")).rpartition("/")[2] if isinstance(node, dict) else ""


def _type(node: Schema, models: Schema) -> str:
    return " or ".join(dict.fromkeys(_one_type(one, models) for one in _alternatives(node)))


def _one_type(node: Schema, models: Schema) -> str:
    name = _named(node)
    if name:
        values = " | ".join(f"`{value}`" for value in models[name].get("enum", ()))
        return _ELSEWHERE.get(name) or values or "object"
    if node.get("pattern") == DURATION_PATTERN:
        return "duration"
    match node.get("type"):
        case "array":
            inner = _type(node["items"], models)
            return f"list of {inner}" + ("" if "`" in inner else "s")
        case "object":
            return "map"
        case other:
            return str(other)
