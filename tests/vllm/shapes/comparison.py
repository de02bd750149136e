"""Two answers, field by field: which fields they have, of which JSON types, and what their names of things are.

An answer is laid out as its paths: `choices[].message.content` is a string. Texts and numbers may differ; words that a
program goes by, such as an `object` or a `finish_reason`, may not.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORDS = frozenset(
    {"object", "type", "role", "finish_reason", "finished_reason", "status", "code", "param", "index", "owned_by"}
)
"""Members whose values are compared too; a `message` as well, but for its numbers."""
NUMBER = re.compile(r"\d+")
DICTIONARIES = re.compile(r"(^|\.)(top_logprobs\[\]|prompt_logprobs\[\]|metadata)$")
"""Objects whose keys are data; all their members are laid out as `*`."""

KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

Layout = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One path at which two answers differ."""

    path: str
    real: frozenset[str]
    """Types, or words, that the real server has there; empty: it has no such member."""
    stub: frozenset[str]

    def __str__(self) -> str:
        return f"{self.path}: real {_listed(self.real)}, stub {_listed(self.stub)}"


def _listed(found: frozenset[str]) -> str:
    return " or ".join(sorted(found)) or "absent"


def layout_of(value: Any) -> Layout:
    """The paths of a JSON value, each with the types, or words, found there."""
    found: dict[str, set[str]] = {}
    for path, kind in _walk(value, ""):
        found.setdefault(path, set()).add(kind)
    return {path: frozenset(kinds) for path, kinds in found.items()}


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    yield path, _kind(value, path)
    if isinstance(value, dict):
        for name, member in value.items():
            step = "*" if DICTIONARIES.search(path) else name
            yield from _walk(member, f"{path}.{step}" if path else step)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, f"{path}[]")


def _kind(value: Any, path: str) -> str:
    name = path.rpartition(".")[2]
    if name in WORDS and isinstance(value, str | int):
        return json.dumps(value)
    if name == "message" and isinstance(value, str):
        return json.dumps(NUMBER.sub("N", value))
    return KINDS[type(value)]


def differences(real: Any, stub: Any) -> list[Difference]:
    """All paths at which a real answer and the stub's differ, in their order."""
    left, right = layout_of(real), layout_of(stub)
    paths = [*left, *(path for path in right if path not in left)]
    nothing: frozenset[str] = frozenset()
    found = [Difference(path, left.get(path, nothing), right.get(path, nothing)) for path in paths]
    return [one for one in found if one.real != one.stub]


def unmeant(found: Sequence[Difference], meant: Mapping[str, str]) -> list[Difference]:
    """Differences without what is meant.

    Args:
        found: all of them.
        meant: reasons by path; a path stands for everything below it too.

    Raises:
        AssertionError: what is said to differ doesn't: the reason is out of date.
    """
    idle = [path for path in meant if not any(_below(one.path, path) for one in found)]
    assert not idle, f"said to differ, and the same: {idle}"
    return [one for one in found if not any(_below(one.path, path) for path in meant)]


def _below(path: str, parent: str) -> bool:
    return path == parent or path.startswith((f"{parent}.", f"{parent}["))
