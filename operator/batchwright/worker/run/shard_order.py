"""The order in which the lines of a shard are sent; their results leave in input order all the same.

Two wishes. Lines whose prompts begin alike should follow one another: a server with a prefix cache computes the common
part once, however many prefixes the input has. And lines that take long should begin early: they must not end last.

So lines with a common prefix make a group, and groups of longer common prefixes lie within it. Groups go by their
longest line, and within a group the longest line or inner group comes first. A prefix is never left and come back to;
within that, no line waits for a shorter one. What each order costs and brings is measured in docs/performance.md.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

MIN_PREFIX_BYTES: Final = 256
"""What a group has more in common than the group around it: a few blocks of vLLM's prefix cache (16 tokens each). Less
is not worth a place beside one another, and is often chance."""
MAX_NESTING: Final = 8
"""Groups within groups, at most. Beyond it lines go by length alone."""
SIGNIFICANT_BITS: Final = 3
"""Of a prefix's length, for its affinity."""
STEP_BYTES: Final = 64
"""How exactly a common length is found; about one block of vLLM's prefix cache."""
BYTES_PER_TOKEN: Final = 4
"""About what a token of a prompt has, to set a prompt's length beside a limit of tokens."""
SEPARATOR: Final = b"\0"


class Turn(NamedTuple):
    """A line's turn to be sent."""

    line: int
    """Which one: its place in what was ordered, from 0."""
    affinity: int | None
    """Equal for lines with one prefix, in each shard and on each worker, so that they may go to one replica; 64 bits.
    None where a line's prompt begins like no other's."""


class _Body(Struct, gc=False):
    """What of a body of any endpoint says how its prompt begins and how long its answer may be."""

    tools: Raw = Raw(b"")
    instructions: Raw = Raw(b"")
    messages: Raw = Raw(b"")
    prompt: Raw = Raw(b"")
    input: Raw = Raw(b"")
    max_tokens: object = None
    max_completion_tokens: object = None
    max_output_tokens: object = None


_decoder = msgspec.json.Decoder(_Body)


class _Line(Struct, frozen=True, gc=False):
    """A line as it is ordered. Compared by its prompt alone."""

    prompt: bytes
    work: tuple[int, int]
    place: int


class _Unit(Struct, frozen=True, gc=False):
    """A line or a group of lines, which stay together. `work` is that of its longest line, which comes first."""

    work: tuple[int, int]
    turns: list[Turn]


def sending_order(bodies: Sequence[bytes | Raw]) -> list[Turn]:
    """The lines of a shard, given by their bodies, as they should be sent: each once."""
    if not bodies:
        return []
    lines = sorted((_read(place, body) for place, body in enumerate(bodies)), key=attrgetter("prompt"))
    return _Ordering(lines).unit(0, len(lines), 0, None, 0).turns


class _Ordering:
    """Lines sorted by their prompts, so that each group is a range of them."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        self._lines = lines
        self._common = [_common_length(line.prompt, after.prompt) for line, after in pairwise(lines)]

    def unit(self, first: int, end: int, depth: int, affinity: int | None, nesting: int) -> _Unit:
        """The lines from `first` to before `end`, which have `depth` bytes in common, in order."""
        units: list[_Unit] = []
        for start, stop in self._groups(first, end, depth + MIN_PREFIX_BYTES if nesting < MAX_NESTING else None):
            line = self._lines[start]
            if stop - start == 1:
                units.append(_Unit(line.work, [Turn(line.place, affinity)]))
            else:
                common = min(self._common[start : stop - 1])
                units.append(self.unit(start, stop, common, _affinity(line.prompt, common), nesting + 1))
        units.sort(key=attrgetter("work"), reverse=True)
        return _Unit(units[0].work, [turn for unit in units for turn in unit.turns])

    def _groups(self, first: int, end: int, least: int | None) -> Iterator[tuple[int, int]]:
        """Ranges of lines of which each has `least` bytes in common with the next; None: each line by itself."""
        start = first
        for last in range(first, end - 1):
            if least is None or self._common[last] < least:
                yield start, last + 1
                start = last + 1
        yield start, end


def _common_length(one: bytes, other: bytes) -> int:
    """Bytes at the beginning that both have, in whole steps; 0 where they are too few to make a group."""
    low, high = MIN_PREFIX_BYTES // STEP_BYTES, min(len(one), len(other)) // STEP_BYTES
    if high < low or not one.startswith(other[:MIN_PREFIX_BYTES]):
        return 0
    while low < high:  # `low` steps are equal, no more than `high` are
        middle = (low + high + 1) // 2
        start = low * STEP_BYTES
        if one.startswith(other[start : middle * STEP_BYTES], start):
            low = middle
        else:
            high = middle - 1
    return low * STEP_BYTES


def _affinity(prompt: bytes, common: int) -> int:
    """A hash of a group's prefix.

    After the true prefix the lines of one shard may happen to share more bytes, and those of the next others. So it
    is cut at one of few lengths, with less than a fifth of it left out.
    """
    shift = common.bit_length() - SIGNIFICANT_BITS
    return int.from_bytes(hashlib.blake2b(prompt[: common >> shift << shift], digest_size=8).digest())


def _read(place: int, body: bytes | Raw) -> _Line:
    try:
        seen = _decoder.decode(body)
    except msgspec.MsgspecError:  # no JSON object: the server will say so
        return _Line(b"", (0, len(memoryview(body))), place)
    # As chat templates have it: tools, then what the system says, then the rest.
    fields = (seen.tools, seen.instructions, seen.messages, seen.prompt, seen.input)
    # Score and rerank have fields of their own.
    prompt = SEPARATOR.join(fields) if any(fields) else bytes(body)
    return _Line(prompt, _work(seen, len(prompt)), place)


def _work(body: _Body, prompt_bytes: int) -> tuple[int, int]:
    """The expected length of the answer in tokens, then the prompt's in bytes.

    An answer is made token by token, a prompt is read at once: so the limit of the answer counts first. Without one,
    long prompts are taken to have long answers.
    """
    limit = body.max_completion_tokens or body.max_tokens or body.max_output_tokens
    return limit if isinstance(limit, int) else prompt_bytes // BYTES_PER_TOKEN, prompt_bytes
