"""Values that fit a JSON schema: what structured outputs and tool calls hold a model to."""

import json
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 64


def fitting_text(schema: Any) -> str:
    """Return the JSON text of a small value that fits."""
    return json.dumps(_fitting(schema, MAX_DEPTH))


def guided_text(body: Mapping[str, Any], response_format: Any) -> str | None:
    """Return the text that a request holds its answer to; None where it leaves it free."""
    outputs = body.get("structured_outputs")
    if isinstance(outputs, dict):
        if choices := outputs.get("choice"):
            return str(choices[0])
        if outputs.get("json") is not None:
            schema = outputs["json"]
            return fitting_text(json.loads(schema) if isinstance(schema, str) else schema)
    if isinstance(response_format, dict):
        if response_format.get("type") == "json_schema":
            # Responses have the schema beside the type; the others have both in a member of their own.
            return fitting_text(response_format.get("json_schema", response_format).get("schema"))
        if response_format.get("type") == "json_object":
            return "{}"
    return None


def _fitting(schema: Any, depth: int) -> Any:
    value: Any = None
    match schema if depth else None:
        case {"const": constant}:
            value = constant
        case {"enum": [first, *_]}:
            value = first
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]} | {"allOf": [first, *_]}:
            value = _fitting(first, depth - 1)
        case {"type": [first, *_]}:
            value = _fitting({**schema, "type": first}, depth - 1)
        case {"type": "object"} | {"properties": _}:
            properties = schema.get("properties", {})
            value = {name: _fitting(properties.get(name), depth - 1) for name in schema.get("required", properties)}
        case {"type": "array"}:
            value = [_fitting(schema.get("items"), depth - 1) for _ in range(schema.get("minItems", 0))]
        case {"type": "string"}:
            value = "a" * schema.get("minLength", 1)
        case {"type": "integer" | "number"}:
            value = schema.get("minimum", 0)
        case {"type": "boolean"}:
            value = True
    return value
