"""Cutting a stream of bytes into lines.

Lines end at the byte `\\n` and nowhere else: U+2028, U+2029 and U+0085 may stand raw inside a JSON string, where
`str.splitlines` would cut (OpenViking#3984). A CR before the end is white space. A line that is longer than a bound is
reported and passed over without being held, and reading goes on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHITE_SPACE = b" \t\r"


@dataclass(frozen=True, slots=True)
class OversizeLine:
    """Stands for a line that was too long to be held. `length` is in bytes, without the line's end."""

    length: int


def split_lines(chunks: Iterable[bytes], max_line_bytes: int) -> Iterator[list[bytes | OversizeLine]]:
    """Cut chunks into lines, without their ends; one list for each chunk that completed a line.

    A last line without an end counts; the empty rest behind a last end does not. The memory held is one chunk and
    `max_line_bytes`.
    """
    held: list[bytes] = []
    length = 0
    for chunk in chunks:
        first_end = chunk.find(b"\n")
        if first_end < 0:
            length += len(chunk)
            if length <= max_line_bytes:
                held.append(chunk)
            else:
                held.clear()
            continue
        lines: list[bytes | OversizeLine] = list(chunk[first_end + 1 :].split(b"\n"))
        rest = lines.pop()
        assert isinstance(rest, bytes)
        lines.insert(0, _joined(held, chunk[:first_end], length + first_end, max_line_bytes))
        yield [_bounded(line, max_line_bytes) for line in lines] if len(chunk) > max_line_bytes else lines
        held, length = ([rest] if len(rest) <= max_line_bytes else []), len(rest)
    if length:
        yield [_joined(held, b"", length, max_line_bytes)]


def _joined(held: list[bytes], last: bytes, length: int, max_line_bytes: int) -> bytes | OversizeLine:
    return b"".join([*held, last]) if length <= max_line_bytes else OversizeLine(length)


def _bounded(line: bytes | OversizeLine, max_line_bytes: int) -> bytes | OversizeLine:
    return OversizeLine(len(line)) if isinstance(line, bytes) and len(line) > max_line_bytes else line


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space: it is passed over, but counts in line numbers."""
    return not line.strip(WHITE_SPACE)
