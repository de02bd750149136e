"""Batches as JSON that scripts can read too."""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

from pydantic import BaseModel

from batchwright.gateway.batches import schema
from batchwright.gateway.http.pretty import PrettyJSON

_METADATA: Final = re.compile(r'^( *)"metadata": \{\n.*?^\1\}', re.MULTILINE | re.DOTALL)
"""No line of a string can look like its end: line breaks in strings are escaped."""
_KEY: Final = re.compile(r'^( *")((?:[^"\\]|\\.)*)(?=": ")', re.MULTILINE)
_ESCAPE: Final = re.compile(r"\\(.)")
_QUOTE: Final = '"'


class BatchJSON(PrettyJSON):
    """One batch, or a page of them. Who cuts out a field with `grep '"id": *"[^"]*"'` finds the batch's own alone.

    People choose the keys of metadata. One that is called like a field of the answer is written with an escape,
    `"\\u0069d"`: the same key to every JSON parser, another text to grep. A quote in a key is escaped so too, since
    `"my \\"id"` ends like a field.
    """

    def render(self, content: Any) -> bytes:
        """Encode."""
        text = super().render(content).decode()
        return _METADATA.sub(lambda found: _KEY.sub(_other_text, found[0]), text).encode()


def _other_text(found: re.Match[str]) -> str:
    """A key of metadata as no field is written."""
    before, key = found.groups()
    if key in _FIELDS:
        return f"{before}{_escape(key[0])}{key[1:]}"
    return before + _ESCAPE.sub(lambda pair: _escape(_QUOTE) if pair[1] == _QUOTE else pair[0], key)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _fields(model: type[BaseModel]) -> Iterator[str]:
    """Names of the fields of a model and of those in it."""
    for name, field in model.model_fields.items():
        yield name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _fields(kind)


_FIELDS: Final = frozenset(_fields(schema.BatchList))
