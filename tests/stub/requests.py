"""Reading a request's body: what vLLM would refuse is refused here in the same way."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from stub import errors
from stub.errors import SwitchError
from stub.switches import Switches, parse_switches

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose body could be read."""

    body: Mapping[str, Any]
    key: str
    """What it is counted under: the switch `id`, metadata.id, or the hash of the body."""
    switches: Switches | None
    """What the body's metadata.stub says; None where it says nothing."""


def read_call(raw: bytes) -> Call:
    """Decode the body. Raises ApiError (400) for bad JSON, no object, and switches that do not parse."""
    body = _object(raw)
    metadata = body.get("metadata")
    text = identity = None
    if isinstance(metadata, dict):
        text, identity = metadata.get("stub"), metadata.get("id")
    switches = _switches(text)
    key = (switches.key if switches else None) or (identity if isinstance(identity, str) else None)
    return Call(body, key or body_key(raw), switches)


def body_key(raw: bytes) -> str:
    """Return the key of a body without an identity of its own: 32 hexadecimal digits of its BLAKE2b."""
    return blake2b(raw, digest_size=16).hexdigest()


def check_model(body: Mapping[str, Any], served: tuple[str, ...], *, pooling: bool = False) -> str:
    """Return the model that answers; one that is not named is the first served. Raises ApiError (404)."""
    model = body.get("model")
    if model is None or model == "":
        model = served[0] if served else ""
    if not isinstance(model, str):
        raise errors.invalid_field("model", "string_type", "Input should be a valid string", model)
    if model not in served:
        raise errors.pooling_model_not_found(model) if pooling else errors.model_not_found(model, served)
    return model


def refuse_stream(body: Mapping[str, Any]) -> None:
    """A batch never asks for a stream; one that comes is a fault of the sender. Raises ApiError (400)."""
    if body.get("stream"):
        raise errors.bad_request("This server does not stream.", param="stream")


def priority_of(header: str | None, body: Mapping[str, Any]) -> int:
    """Return the priority as vLLM reads it: the header X-Vllm-Priority, else the body's field, else 0."""
    if header is not None:
        try:
            return int(header)
        except ValueError:
            pass
    priority = body.get("priority")
    return priority if isinstance(priority, int) else 0


def whole(body: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a whole number, or None where it is absent or null. Texts of digits count, as in vLLM.

    Raises ApiError (400) for anything else.
    """
    value = body.get(name)
    if value is None or type(value) is int:
        return value
    if isinstance(value, bool | float):
        if value == int(value):
            return int(value)
        kind, why = "int_from_float", ", got a number with a fractional part"
    elif isinstance(value, str):
        if re.fullmatch(r"\s*[+-]?\d+\s*", value, re.ASCII):
            return int(value)
        kind, why = "int_parsing", ", unable to parse string as an integer"
    else:
        kind, why = "int_type", ""
    raise errors.invalid_field(name, kind, f"Input should be a valid integer{why}", value)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        body = _decode_slowly(raw)
    if not isinstance(body, dict):
        kind, message = "model_attributes_type", "Input should be a valid dictionary or object to extract fields from"
        raise errors.invalid_field("", kind, message, body)
    return body


def _decode_slowly(raw: bytes) -> Any:
    """Decode a body with the parser that vLLM uses: it takes more, such as NaN, and places what it refuses."""
    if not raw:
        raise errors.missing_field("", None)
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        raise errors.invalid_json(error.pos, error.msg) from None
    except (RecursionError, UnicodeDecodeError):
        raise errors.unreadable_body() from None


def _switches(text: Any) -> Switches | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise errors.bad_request("metadata.stub must be a string", param="metadata.stub")
    try:
        switches = parse_switches(text)
    except SwitchError as error:
        raise errors.bad_request(f"metadata.stub: {error}", param="metadata.stub") from None
    if any(step.reset == "before_read" for step in switches.steps):
        # By the time the switch is known the body has been read.
        raise errors.bad_request(
            "metadata.stub: reset=before_read can only be set for the whole server", param="metadata.stub"
        )
    return switches
