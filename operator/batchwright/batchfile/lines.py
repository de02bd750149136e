"""Cutting a stream of bytes into lines.

Lines end at the byte `\\n` and nowhere else: U+2028, U+2029 and U+0085 may stand raw inside a JSON string, where
`str.splitlines` would cut (OpenViking#3984). A CR before the end is white space. A line that is longer than a bound is
reported and passed over without being held, and reading goes on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
WHITE_SPACE: Final = b" \t\r"
LINES_AT_ONCE: Final = 256
"""Lines of one list at most: few enough to stay in the processor's cache until they are read."""


@dataclass(frozen=True, slots=True)
class OversizeLine:
    """Stands for a line that was too long to be held. `length` is in bytes, without the line's end."""

    length: int

    def __len__(self) -> int:
        return self.length


def split_lines(chunks: Iterable[bytes], max_line_bytes: int) -> Iterator[list[bytes | OversizeLine]]:
    """Cut chunks into lines, without their ends, in lists that are never empty.

    A last line without an end counts; the empty rest behind a last end does not. The memory held is one chunk, one
    list, and `max_line_bytes`.
    """
    held: list[bytes] = []  # the beginning of a line that no chunk has ended yet, unless it is too long already
    length = 0
    for chunk in chunks:
        # `bytes.split` looks at each byte; `find` is several times as fast on lines of some length.
        end = chunk.find(b"\n")
        if end < 0:
            length += len(chunk)
            if length <= max_line_bytes:
                held.append(chunk)
            else:
                held.clear()
            continue
        lines = [_joined(held, chunk[:end], length + end, max_line_bytes)]
        start = end + 1
        while (end := chunk.find(b"\n", start)) >= 0:
            if len(lines) == LINES_AT_ONCE:
                yield lines
                lines = []
            lines.append(chunk[start:end] if end - start <= max_line_bytes else OversizeLine(end - start))
            start = end + 1
        yield lines
        length = len(chunk) - start
        held = [chunk[start:]] if length <= max_line_bytes else []
    if length:
        yield [_joined(held, b"", length, max_line_bytes)]


def _joined(held: list[bytes], last: bytes, length: int, max_line_bytes: int) -> bytes | OversizeLine:
    return b"".join([*held, last]) if length <= max_line_bytes else OversizeLine(length)


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space: it is passed over, but counts in line numbers."""
    return not line.strip(WHITE_SPACE)
