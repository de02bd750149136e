"""The reference of the operator's settings in Markdown, made from the fields of `Settings` and the texts under them."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta

from hack.reference import table

from batchwright.api.duration import format_duration
from batchwright.controller import settings
from batchwright.controller.settings import Settings

HEAD = """\
<!-- Generated from operator/batchwright/controller/settings.py by `make generate`: don't edit. -->
# Settings of the operator

Environment variables of the operator's container, read and checked once at its start. A wrong one ends the operator
with a message that names it. An empty one means the default. Durations are written as in Go: `90s`, `3m`, `1h30m`.
"""


def settings_reference() -> str:
    """The whole page."""
    return f"{HEAD}\n{table(('variable', 'default', 'meaning'), _rows())}"


def _rows() -> Iterator[tuple[str, str, str]]:
    variables = settings.variables()
    texts = _texts()
    for field in fields(Settings):
        yield f"`{variables[field.name]}`", _shown(field.default), texts[field.name]


def _shown(default: object) -> str:
    match default:
        case None:
            return "none"
        case timedelta():
            return f"`{format_duration(default)}`"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"


def _texts() -> dict[str, str]:
    """The string that follows each field in the class, in one line."""
    (definition,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(value))):
                found[name] = " ".join(value.split())
    return found
