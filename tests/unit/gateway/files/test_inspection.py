import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.lines import is_blank
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.inspection import HELD_BYTES, Findings, Inspection, model_of

BOM = b"\xef\xbb\xbf"


def line_of(model: object = "llama", **fields: object) -> bytes:
    return json.dumps({"custom_id": "a", "body": {"model": model}, **fields}, ensure_ascii=False).encode()


LINE = line_of()


def inspect(*pieces: bytes) -> Findings:
    inspection = Inspection()
    for piece in pieces:
        inspection.add(piece)
    return inspection.finish()


def refusal(*pieces: bytes) -> str:
    with pytest.raises(ApiError) as refused:
        inspect(*pieces)
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "invalid_value", "file")
    return refused.value.message


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"\n", 0),
        (b" \r\n\t\n", 0),
        (LINE, 1),
        (LINE + b"\n", 1),
        (LINE + b"\r\n" + LINE + b"\r\n", 2),
        (b"\n\n" + LINE + b"\n\n \n" + LINE + b"\n\n", 2),
        (BOM, 0),
        (BOM + LINE, 1),
        (BOM + b"\n" + LINE, 1),
        (b"a", 1),
        ("a\u2028b\u2029c\u0085d\n".encode(), 1),
        (b"a\fb\vc\n", 1),
        (b"a\rb\n", 1),
    ],
)
def test_lines_end_at_newlines_alone_and_blank_ones_are_not_counted(data: bytes, lines: int) -> None:
    assert inspect(data).lines == lines


@given(data=st.lists(st.sampled_from([b"a", b"\n", b" ", b"\r", b"\xc3\xa4", b"{}", BOM]), max_size=30).map(b"".join))
def test_lines_are_counted_as_the_batch_counts_them(data: bytes) -> None:
    lines = data.removeprefix(BOM).split(b"\n")
    assert inspect(data).lines == sum(not is_blank(line) for line in lines)


@given(
    data=st.one_of(
        st.binary(max_size=60),
        st.text(max_size=40).map(str.encode),
        st.lists(st.sampled_from([LINE, b"\n", b"\r\n", b" ", BOM, b"\xff", b"\xe2\x82", b"\0"])).map(b"".join),
    ),
    places=st.lists(st.integers(0, 300)),
)
def test_any_cutting_into_pieces_gives_the_same_findings(data: bytes, places: list[int]) -> None:
    def outcome(*pieces: bytes) -> Findings | str:
        try:
            return inspect(*pieces)
        except ApiError as error:
            return error.message

    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    assert outcome(*(data[start:end] for start, end in pairwise(ends))) == outcome(data)


@pytest.mark.parametrize("data", ["ä€😀".encode(), "\ufeff\ufeff".encode(), b"abcd\0e", "\uffff\U0010ffff".encode()])
def test_all_of_utf_8_is_taken_wherever_it_is_cut(data: bytes) -> None:
    assert inspect(*(data[at : at + 1] for at in range(len(data)))).lines == 1


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\xff", 1),
        (b"ok\nok\n\nb\xc3\x28\n", 4),
        (b"ok\n\xed\xa0\xbd\n", 2),  # a surrogate
        (b"ok\n\xc0\xaf\n", 2),  # an overlong form
        (b"ok\n\xf4\x90\x80\x80", 2),  # beyond U+10FFFF
        (b"ok\nok\xe2\x82", 2),  # cut at the end
        (b"\xef\xbb", 1),
        ("größe\n".encode("latin-1"), 1),
    ],
)
def test_what_is_no_utf_8_is_refused_naming_the_line(data: bytes, line: int) -> None:
    assert f"Line {line}: byte 0x" in refusal(data)
    assert f"Line {line}: byte 0x" in refusal(*(data[at : at + 1] for at in range(len(data))))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (gzip.compress(LINE), "gzip"),
        (b"\x28\xb5\x2f\xfd rest", "zstd"),
        (b"PK\x03\x04 rest", "zip"),
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-16-le"), "UTF-16"),
        ("{}".encode("utf-16-be"), "UTF-16"),
        ("{}".encode("utf-32-le"), "UTF-32"),
        ("{}".encode("utf-32-be"), "UTF-32"),
    ],
)
def test_other_formats_are_refused_by_their_names(data: bytes, what: str) -> None:
    assert what in refusal(data)
    assert what in refusal(*(data[at : at + 1] for at in range(len(data))))


@pytest.mark.parametrize(
    "data",
    [
        LINE,
        LINE + b"\n",
        b"\n \r\n" + LINE + b"\r\n" + line_of("other"),
        BOM + LINE,
        BOM + b"\n" + b" " * 100 + LINE,
        line_of("llama", more="x" * (HELD_BYTES - 200)) + b"\n",
    ],
)
def test_the_model_is_that_of_the_first_line_that_is_not_blank(data: bytes) -> None:
    assert inspect(data) == Findings(inspect(data).lines, "llama")


@pytest.mark.parametrize("before", [b"", BOM, b"\n" * 70_000 + b"  "])
def test_a_first_line_that_is_too_long_to_be_held_is_told_by_its_place(before: bytes) -> None:
    data = before + line_of("llama", more="x" * HELD_BYTES) + b"\n" + LINE
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    assert inspect(*pieces) == Findings(2, None, unread_at=len(before))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b'{"body": null}',
        b'{"body": {}}',
        line_of(None),
        line_of(7),
        line_of("m" * 513),
        b'{"body": {"model": "a"}',
        b"[" * 100_000,
        b'{"body": {"model": "\xff"}}',
    ],
)
def test_a_first_line_without_a_model_is_no_fault_of_the_upload(line: bytes) -> None:
    assert model_of(line) is None


def test_the_model_is_found_whatever_else_the_line_holds() -> None:
    assert model_of(b'{"x": [1, {"model": "no"}], "body": {"messages": [], "model": "l\\u00e4ma"}}') == "läma"
