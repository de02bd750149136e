"""Schemas of the parts of a pod that a BatchJob may have, made from the types of the Kubernetes client.

The models leave these parts to Kubernetes, which checks them when the Job is created. The CRD may not: under a schema
without fields anybody may nest objects by the thousand, and what can't be read at that depth stops the operator for
everybody. So their fields are named in it, and the API server drops all others. They bear no descriptions, which would
make the CRD larger than `kubectl apply` takes.
"""

import re
from typing import Any

from kubernetes.client import models

Schema = dict[str, Any]

PARTS = {
    "resources": "V1ResourceRequirements",
    "tolerations": "V1Toleration",
    "affinity": "V1Affinity",
    "volumes": "V1Volume",
    "volumeMounts": "V1VolumeMount",
    "env": "V1EnvVar",
}
"""The type of each field of spec.worker that is a part of a pod, or a list of them."""

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TYPES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number", "datetime": "string"}
_QUANTITIES = frozenset({"limits", "requests", "sizeLimit", "divisor"})
"""Fields that hold a quantity, such as 500m, or quantities by name. The client's types say no more than `str`."""
_QUANTITY = {"x-kubernetes-int-or-string": True}
_METADATA = frozenset({"labels", "annotations"})
"""What of its metadata a template of a volume claim may say."""


def spell_out(definition: Schema) -> Schema:
    """The CRD of `custom_resource_definition`, with the fields of all parts of a pod in place of open objects."""
    return {
        **definition,
        "spec": {**definition["spec"], "versions": [_version(one) for one in definition["spec"]["versions"]]},
    }


def part(type_name: str) -> Schema:
    """The structural schema of one of the client's types. Raises RecursionError for one that contains itself."""
    model = getattr(models, type_name)
    fields = {model.attribute_map[name]: type_of for name, type_of in model.openapi_types.items()}
    if type_name == "V1ObjectMeta":
        fields = {name: fields[name] for name in sorted(_METADATA)}
    return {"type": "object", "properties": {name: _field(name, type_of) for name, type_of in fields.items()}}


def _version(version: Schema) -> Schema:
    whole = version["schema"]["openAPIV3Schema"]
    spec = whole["properties"]["spec"]
    worker = spec["properties"]["worker"]
    fields = {name: _filled(name, node) if name in PARTS else node for name, node in worker["properties"].items()}
    spec = _with(spec, worker={**worker, "properties": fields})
    return {**version, "schema": {"openAPIV3Schema": _with(whole, spec=spec)}}


def _with(node: Schema, **properties: Schema) -> Schema:
    return {**node, "properties": {**node["properties"], **properties}}


def _filled(name: str, node: Schema) -> Schema:
    if "items" in node:
        return {**node, "items": _filled(name, node["items"])}
    return {**part(PARTS[name]), **{key: value for key, value in node.items() if key != _PRESERVE}}


def _field(name: str, type_of: str) -> Schema:
    """The schema of a field; its type is written as in the client: str, V1Toleration, List[str], Dict[str, str]."""
    if listed := re.fullmatch(r"List\[(.+)\]", type_of):
        return {"type": "array", "items": _field("", listed[1])}
    if mapped := re.fullmatch(r"Dict\[str, (.+)\]", type_of):
        return {"type": "object", "additionalProperties": _field(name, mapped[1])}
    if name in _QUANTITIES and type_of == "str":
        return dict(_QUANTITY)
    return {"type": _TYPES[type_of]} if type_of in _TYPES else part(type_of)
