"""The Range header of a download (RFC 9110 §14). Pure."""

import re
from dataclasses import dataclass
from typing import Final

_RANGE: Final = re.compile(r"bytes\s*=\s*([0-9]*)\s*-\s*([0-9]*)\s*", re.IGNORECASE)
_LONGEST_NUMBER: Final = 19


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes [start, end) of an object."""

    start: int
    end: int


class Unsatisfiable(Exception):  # noqa: N818
    """No byte of the object is in the range (416)."""


def asked_range(header: str | None, size: int) -> ByteRange | None:
    """The range that a header asks for; None where the whole object is to be sent.

    A header that can't be read, or names several ranges, is passed over, as a server may.

    Raises:
        Unsatisfiable: it begins behind the object's end.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or max(len(match[1]), len(match[2])) > _LONGEST_NUMBER:
        return None
    if not match[1]:
        return _last(int(match[2]), size) if match[2] else None
    start, last = int(match[1]), int(match[2]) if match[2] else size - 1
    if match[2] and last < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return ByteRange(start, min(last + 1, size))


def _last(count: int, size: int) -> ByteRange:
    if not (count and size):
        raise Unsatisfiable
    return ByteRange(max(0, size - count), size)
