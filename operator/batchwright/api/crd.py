"""The CustomResourceDefinition, generated from the models.

A structural schema allows no `$ref`, no `anyOf` with null, no `const`, `title` or `additionalProperties: false`
(Kubernetes, "Specifying a structural schema"), so pydantic's JSON schema is inlined and cleaned here.
"""

from typing import Any

from batchwright.api import names, rules
from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.status import BatchJobStatus

Schema = dict[str, Any]
_DROPPED = ("title", "default", "$defs", "propertyNames", "enumNames")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"

_COLUMNS: tuple[Schema, ...] = (
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
    {"name": "Failed", "type": "integer", "jsonPath": ".status.requestCounts.failed"},
    {"name": "Rate", "type": "string", "jsonPath": ".status.rate"},
    {"name": "ETA", "type": "string", "jsonPath": ".status.eta"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Output", "type": "string", "jsonPath": ".status.output.uri", "priority": 1},
    {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
)


def custom_resource_definition() -> Schema:
    """The whole CRD, but for the fields of parts of a pod, which `hack/pod_parts.py` puts in where it is written."""
    spec = structural(BatchJobSpec.model_json_schema(by_alias=True))
    spec["x-kubernetes-validations"] = [rule.schema() for rule in rules.SPEC_RULES]
    spec["properties"]["server"]["x-kubernetes-validations"] = [rules.SERVER_ONE_ADDRESS.schema()]
    status = structural(BatchJobStatus.model_json_schema(by_alias=True, mode="serialization"))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": [names.CATEGORY],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(_COLUMNS),
                    "selectableFields": [{"jsonPath": ".status.phase"}],
                    "schema": {
                        "openAPIV3Schema": {
                            "description": "A batch of LLM requests that runs on the cluster.",
                            "type": "object",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {
                                    "type": "string",
                                    "description": f"Always {names.API_VERSION}.",
                                },
                                "kind": {"type": "string", "description": f"Always {names.KIND}."},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": status,
                            },
                        }
                    },
                }
            ],
        },
    }


def structural(schema: Schema) -> Schema:
    """A JSON schema of pydantic as a structural schema."""
    cleaned = _clean(schema, schema.get("$defs", {}))
    assert isinstance(cleaned, dict)
    return cleaned


def _clean(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _clean({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    if node.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in node.items() if key not in ("anyOf", *_DROPPED)}
    if "anyOf" in node:
        (only,) = [option for option in node["anyOf"] if option.get("type") != "null"]
        return _clean({**only, **{key: value for key, value in node.items() if key != "anyOf"}}, definitions)
    cleaned = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in cleaned:
        cleaned["enum"] = [cleaned.pop("const")]
    if "properties" in cleaned:
        cleaned["properties"] = {key: _clean(value, definitions) for key, value in cleaned["properties"].items()}
    if "items" in cleaned:
        cleaned["items"] = _clean(cleaned["items"], definitions)
    return _clean_map(cleaned, definitions)


def _clean_map(cleaned: Schema, definitions: Schema) -> Schema:
    values = cleaned.get("additionalProperties")
    if values is False or cleaned.get(_PRESERVE):
        del cleaned["additionalProperties"]
    elif isinstance(values, dict):
        cleaned["additionalProperties"] = _clean(values, definitions)
    return cleaned
