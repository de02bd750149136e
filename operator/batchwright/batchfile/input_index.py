"""Where each request of an input lies: enough to cut it into shards of any size, in 4 bytes for a request.

Kept are the lengths of the lines. What stands between requests (a byte order mark, blank lines) is kept once for each
place where there is any, so that a gigabyte of blank lines costs no more than one.
"""

from array import array
from bisect import bisect_right
from itertools import accumulate

from batchwright.batchfile.plan_record import Shard


class InputIndex:
    """Takes what an input consists of, in order, and cuts it into shards."""

    def __init__(self) -> None:
        self._lengths = array("I")  # of each request's line with its end
        self._gap_before = array("I")  # for each gap, the number of the request that follows it, from 0
        self._gap_lines = array("Q")  # lines in this gap and in all before it
        self._gap_bytes = array("Q")  # bytes of the same

    def add_request(self, length: int) -> None:
        """A request's line; its length in bytes with its end, under 4 GiB."""
        self._lengths.append(length)

    def add_gap(self, length: int, *, lines: int = 1) -> None:
        """Something that is no request: the next bytes, and how many lines they are."""
        if not self._gap_before or self._gap_before[-1] != len(self._lengths):
            self._gap_before.append(len(self._lengths))
            self._gap_lines.append(self._gap_lines[-1] if self._gap_lines else 0)
            self._gap_bytes.append(self._gap_bytes[-1] if self._gap_bytes else 0)
        self._gap_lines[-1] += lines
        self._gap_bytes[-1] += length

    @property
    def requests(self) -> int:
        """Requests so far."""
        return len(self._lengths)

    @property
    def lines(self) -> int:
        """Lines so far, requests and others."""
        return len(self._lengths) + (self._gap_lines[-1] if self._gap_lines else 0)

    def shards(self, lines_per_shard: int, size: int | None = None) -> list[Shard]:
        """Byte ranges, each beginning where the one before it ends, that together hold every request once, in order.

        `size` is the input's: without it the last range ends one byte behind an input whose last line has no end.
        """
        if not self._lengths:
            return []
        firsts = range(0, len(self._lengths), lines_per_shard)
        sizes = [sum(self._lengths[first : first + lines_per_shard]) for first in firsts]
        before = list(accumulate(sizes, initial=0))
        starts = [before[number] + self._gap(first)[1] for number, first in enumerate(firsts)]
        end = before[-1] + self._gap(len(self._lengths) - 1)[1]
        ends = [*starts[1:], end if size is None else min(end, size)]
        return [
            Shard(
                start=start,
                end=end,
                first_line=first + 1 + self._gap(first)[0],
                lines=min(lines_per_shard, len(self._lengths) - first),
            )
            for first, start, end in zip(firsts, starts, ends, strict=True)
        ]

    def _gap(self, request: int) -> tuple[int, int]:
        """Lines and bytes that are no request's, before a request."""
        found = bisect_right(self._gap_before, request)
        return (self._gap_lines[found - 1], self._gap_bytes[found - 1]) if found else (0, 0)
