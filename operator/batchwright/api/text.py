"""Text and counts from elsewhere, made fit for a status: cut to a bound, and always encodable."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from batchwright.api.undone import Undone

ELLIPSIS = "…"
OTHER = "other"
MAX_COUNT_NAMES = 16
MAX_COUNT_NAME_LENGTH = 40

_ALWAYS_KEPT = frozenset(code.value for code in Undone)
_COUNT_NAME = re.compile(rf"[A-Za-z0-9_.:-]{{1,{MAX_COUNT_NAME_LENGTH}}}", re.ASCII)


def cut(text: str, length: int) -> str:
    """At most `length` characters of a text; an ellipsis says that it was longer."""
    if len(text) <= length:
        return text
    return text[: length - 1] + ELLIPSIS if length > 0 else ""


def encodable(text: str) -> str:
    """A text without lone surrogates, which JSON's escapes allow and UTF-8 does not: they show as escapes."""
    return text.encode(errors="backslashreplace").decode()


def _cut_to(length: int) -> Callable[[object], object]:
    def shorten(value: object) -> object:
        return cut(encodable(value), length) if isinstance(value, str) else value

    return shorten


def fold_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, the most frequent first, at most 16 names of at most 40 plain characters.

    The names come from servers, so they are bounded here: what has no place is added up under `other`. The sum
    never changes. The codes of `Undone` always have a place, since what they count is no failure to OpenAI's clients.
    """
    plain = {name: count for name, count in counts.items() if _COUNT_NAME.fullmatch(name) and name != OTHER}
    rest = sum(count for name, count in counts.items() if name not in plain)
    ranked = sorted(plain.items(), key=lambda item: (-item[1], item[0]))
    places = MAX_COUNT_NAMES if not rest and len(ranked) <= MAX_COUNT_NAMES else MAX_COUNT_NAMES - 1
    kept = {name for name, _ in sorted(ranked, key=lambda item: item[0] not in _ALWAYS_KEPT)[:places]}
    rest += sum(count for name, count in ranked if name not in kept)
    return {name: count for name, count in ranked if name in kept} | ({OTHER: rest} if rest else {})


Message = Annotated[str, BeforeValidator(_cut_to(2048)), StringConstraints(max_length=2048)]
"""Text for people. A longer one is cut, since no message may keep a status from being written."""

Sentence = Annotated[str, BeforeValidator(_cut_to(1024)), StringConstraints(max_length=1024)]
"""A shorter Message, one of many."""

Word = Annotated[str, BeforeValidator(_cut_to(64)), StringConstraints(max_length=64)]
"""A name or a number with its unit."""

CountsByName = Annotated[
    dict[str, Annotated[int, Field(json_schema_extra={"format": "int64"})]],
    AfterValidator(fold_counts),
    Field(json_schema_extra={"maxProperties": MAX_COUNT_NAMES}),
]
"""Counts by a name that a server chose. See fold_counts."""
