"""Cutting chunks into lines."""

import sys
from collections.abc import Iterator

import pytest

from batchwright.batchfile.lines import LINES_AT_ONCE, OversizeLine, is_blank, split_lines

LINES = [
    ("nothing", [], []),
    ("an empty chunk", [b""], []),
    ("one line", [b"a\n"], [b"a"]),
    ("no end at the end", [b"a\nb"], [b"a", b"b"]),
    ("empty lines", [b"\n\na\n\n"], [b"", b"", b"a", b""]),
    ("carriage returns stay", [b"a\r\nb\r"], [b"a\r", b"b\r"]),
    ("a line over three chunks", [b"a", b"b", b"c\nd"], [b"abc", b"d"]),
    ("an end that begins a chunk", [b"a", b"\nb", b"\n"], [b"a", b"b"]),
    ("empty chunks between", [b"", b"a", b"", b"\n", b""], [b"a"]),
    (
        "other separators",
        ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n".encode()],
        ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg".encode()],
    ),
]


@pytest.mark.parametrize(("chunks", "lines"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_lines_of_chunks(chunks: list[bytes], lines: list[bytes]) -> None:
    assert [line for some in split_lines(chunks, 100) for line in some] == lines


OVERSIZE = [
    ("as long as may be", [b"aaa\nb\n"], [b"aaa", b"b"]),
    ("as long as may be, not the first", [b"b\naaa\nb\n"], [b"b", b"aaa", b"b"]),
    ("within a chunk", [b"aaaa\nb\n"], [OversizeLine(4), b"b"]),
    ("in the middle of a chunk", [b"a\nbbbb\nc\n"], [b"a", OversizeLine(4), b"c"]),
    ("over chunks", [b"aa", b"aa", b"aa", b"a\nb\n"], [OversizeLine(7), b"b"]),
    ("as long as may be over chunks", [b"a", b"a", b"a", b"\nb"], [b"aaa", b"b"]),
    ("too long with its last chunk", [b"aa", b"aa\nb"], [OversizeLine(4), b"b"]),
    ("without an end", [b"b\naa", b"aa"], [b"b", OversizeLine(4)]),
    ("without an end, in one chunk", [b"aaaa"], [OversizeLine(4)]),
    ("two in a row", [b"aaaa\nbbbbb\n"], [OversizeLine(4), OversizeLine(5)]),
    ("after a rest that was too long", [b"x\naaaa", b"a\nb\n"], [b"x", OversizeLine(5), b"b"]),
]


@pytest.mark.parametrize(("chunks", "lines"), [row[1:] for row in OVERSIZE], ids=[row[0] for row in OVERSIZE])
def test_a_line_that_is_too_long_is_passed_over(chunks: list[bytes], lines: list[bytes | OversizeLine]) -> None:
    assert [line for some in split_lines(chunks, 3) for line in some] == lines


def test_a_line_that_is_too_long_is_not_held() -> None:
    chunk = bytes(1000)
    references = []

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            references.append(sys.getrefcount(chunk))
            yield chunk

    assert [line for some in split_lines(chunks(), 5000) for line in some] == [OversizeLine(100_000)]
    assert max(references) <= references[0] + 6


def test_an_oversize_line_is_as_long_as_the_line_was() -> None:
    assert len(OversizeLine(7)) == 7


def test_no_list_is_empty_or_long() -> None:
    lists = list(split_lines([b"a\n" * 1000, b"", b"b", b"\n" * 1000], 10))
    assert all(1 <= len(some) <= LINES_AT_ONCE for some in lists)
    assert sum(map(len, lists)) == 2000


def test_chunks_are_taken_one_at_a_time() -> None:
    taken = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"a\n", b"b\n", b"c\n"):
            taken.append(chunk)
            yield chunk

    lines = split_lines(chunks(), 10)
    assert next(lines) == [b"a"]
    assert taken == [b"a\n"]


@pytest.mark.parametrize(
    ("line", "blank"), [(b"", True), (b" ", True), (b"\t\r ", True), (b"x", False), (b" {", False), (b"\x0b", False)]
)
def test_blank_is_what_json_calls_white_space(line: bytes, blank: bool) -> None:
    assert is_blank(line) is blank
