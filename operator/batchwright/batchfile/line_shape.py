"""What the lines of one input have in common, and a decoder that takes lines of that shape.

The lines of a file look alike: the same fields, in the same places. From those that were found right, a `LineShape`
learns which fields there are, and makes a typed decoder that takes nothing else. It is about twice as fast as decoding
into dicts and looking at each field, and as strict: it knows every field, so no part of a line is skipped (what msgspec
skips it doesn't check for invalid UTF-8 and numbers that overflow). A line that it refuses needs a closer look, and may
still be right.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
from msgspec import Meta
from msgspec.json import Decoder

MAX_CUSTOM_ID_LENGTH: Final = 512
MAX_FIELDS: Final = 64
"""Of one object. What has more is a map whose keys are data, and is taken as it is."""
MAX_DEPTH: Final = 3
"""Objects within the body that are learned; those within them are taken as they are."""
MAX_LESSONS: Final = 300
"""Lines that are looked at: enough to find out that some objects are maps, but no decoder for every line."""

_NOT_NULL: Final = bool | int | float | str | list[Any] | dict[str, Any]


class ExpectedBody(Protocol):
    """What is read of a body of the learned shape; the decoder has seen to the rest."""

    stream: bool | None


class ExpectedLine(Protocol):
    """What is read of a line of the learned shape."""

    custom_id: str
    body: ExpectedBody


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object with some of these fields."""

    fields: "Mapping[str, _Shape]"


@dataclass(frozen=True, slots=True)
class _Objects:
    """A JSON array of objects of one shape."""

    item: _Object


_Shape = _Object | _Objects | None
"""None is any value. Only objects are worth a type: they alone are slow to decode without one."""


class LineShape:
    """The shape of the good lines of one input so far."""

    def __init__(self, required: Collection[str]) -> None:
        """`required` names the fields that no body is without, the model aside."""
        self._required = required
        self._envelope: Mapping[str, _Shape] = {}
        self._body: Mapping[str, _Shape] = {}
        self._lessons = 0

    def learn(self, line: Mapping[str, Any]) -> bool:
        """Take a good line into account; True when a new decoder is needed."""
        if self._lessons == MAX_LESSONS:
            return False
        self._lessons += 1
        body = _union(_Object(self._body), _shape_of(line["body"], MAX_DEPTH))
        envelope = _union(_Object(self._envelope), _shape_of(line, 0))
        if not isinstance(body, _Object) or not isinstance(envelope, _Object):
            return False
        is_new = body.fields != self._body or envelope.fields != self._envelope
        self._body, self._envelope = body.fields, envelope.fields
        return is_new

    def decoder(self, *, url: str, model: str) -> Callable[[Any], ExpectedLine]:
        """Decodes lines for this url and model that have the shape, and raises on everything else, right or wrong.

        One thing is left to the caller: whether `stream` is true.
        """
        body: list[_Field] = [("model", Literal[model])]
        body += [(name, _required(_type_of(self._body.get(name)))) for name in self._required]
        body += [("stream", bool | None, None)]
        line: list[_Field] = [
            ("custom_id", Annotated[str, Meta(min_length=1, max_length=MAX_CUSTOM_ID_LENGTH)]),
            ("method", Literal["POST"]),
            ("url", Literal[url]),
            ("body", _struct(body + _others(self._body, body))),
        ]
        return Decoder(_struct(line + _others(self._envelope, line))).decode


_Field = tuple[str, Any] | tuple[str, Any, Any]


def _shape_of(value: object, depth: int) -> _Shape:
    if depth < 0:
        return None
    if isinstance(value, dict) and len(value) <= MAX_FIELDS and all(map(_can_be_learned, value)):
        return _Object({name: _shape_of(item, depth - 1) for name, item in value.items()})
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        item = _shape_of(value[0], depth)
        for other in value[1:]:
            item = _union(item, _shape_of(other, depth))
        return _Objects(item) if isinstance(item, _Object) else None
    return None


def _can_be_learned(name: str) -> bool:
    """msgspec has no fields whose names JSON must escape."""
    return name.isprintable() and not {'"', "\\"} & set(name)


def _union(left: _Shape, right: _Shape) -> _Shape:
    """The shape of whatever has either."""
    if isinstance(left, _Objects) and isinstance(right, _Objects):
        item = _union(left.item, right.item)
        return _Objects(item) if isinstance(item, _Object) else None
    if isinstance(left, _Object) and isinstance(right, _Object):
        common = left.fields.keys() & right.fields.keys()
        fields = {**left.fields, **right.fields}
        fields |= {name: _union(left.fields[name], right.fields[name]) for name in common}
        return _Object(fields) if len(fields) <= MAX_FIELDS else None
    return None


def _type_of(shape: _Shape) -> Any:
    if shape is None:
        return Any
    if isinstance(shape, _Objects):
        return list[_type_of(shape.item)]  # type: ignore[misc]
    return _struct(_fields(shape.fields))


def _required(kind: Any) -> Any:
    return _NOT_NULL if kind is Any else kind


def _others(shapes: Mapping[str, _Shape], fields: list[_Field]) -> list[_Field]:
    named = {field[0] for field in fields}
    return _fields({name: shape for name, shape in shapes.items() if name not in named})


def _fields(shapes: Mapping[str, _Shape]) -> list[_Field]:
    """Fields that may be missing, under names that Python takes."""
    return [
        (f"field_{number}", _type_of(shape), msgspec.field(name=name, default=None))
        for number, (name, shape) in enumerate(shapes.items())
    ]


def _struct(fields: list[_Field]) -> Any:
    return msgspec.defstruct("Expected", fields, forbid_unknown_fields=True, gc=False)
