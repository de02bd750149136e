from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway.files.multipart import (
    MAX_HEADER_BYTES,
    MAX_PARTS,
    FormReader,
    MalformedForm,
    PartBegins,
    PartData,
    boundary_of,
)

BOUNDARY = b"xYzZY"
PURPOSE = b'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch'
LINES = b'{"custom_id":"a"}\r\n{"custom_id":"b"}\n--xYzZ\r\n--xYzZ--\r\n-'
FILE = (
    b'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
    + LINES
)


def body_of(*parts: bytes, end: bytes = b"--xYzZY--\r\n") -> bytes:
    return b"".join(b"--xYzZY\r\n" + part + b"\r\n" for part in parts) + end


def part_of(name: str, value: bytes = b"v") -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value


def read(chunks: list[bytes], boundary: bytes = BOUNDARY) -> list[tuple[str, str | None, bytes]]:
    """The parts of a body, whole: name, file name, bytes."""
    reader = FormReader(boundary)
    parts: list[tuple[str, str | None, bytes]] = []
    for chunk in chunks:
        for event in reader.feed(chunk):
            if isinstance(event, PartBegins):
                parts.append((event.name, event.filename, b""))
            elif isinstance(event, PartData):
                assert event.data
                parts[-1] = (*parts[-1][:2], parts[-1][2] + event.data)
    reader.finish()
    return parts


def cut(body: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
    return [body[start:end] for start, end in pairwise(ends)]


def test_parts_come_in_their_order_with_their_names() -> None:
    assert read([body_of(PURPOSE, FILE)]) == [("purpose", None, b"batch"), ("file", "a.jsonl", LINES)]
    assert read([body_of(FILE, PURPOSE)]) == [("file", "a.jsonl", LINES), ("purpose", None, b"batch")]


@given(places=st.lists(st.integers(0, 10_000)))
def test_any_cutting_into_pieces_gives_the_same_parts(places: list[int]) -> None:
    body = body_of(PURPOSE, FILE)
    assert read(cut(body, places)) == read([body])


@given(
    content=st.binary(max_size=200).filter(lambda data: b"\r\n--xYzZY" not in b"\r\n" + data),
    places=st.lists(st.integers(0, 400)),
)
def test_any_bytes_come_through(content: bytes, places: list[int]) -> None:
    assert read(cut(body_of(part_of("file", content)), places)) == [("file", None, content)]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b'filename="a b.jsonl"', "a b.jsonl"),
        (b"filename=plain.jsonl", "plain.jsonl"),
        ('filename="Größe – 数.jsonl"'.encode(), "Größe – 数.jsonl"),
        (b'filename="latin-\xe9.jsonl"', "latin-\ufffd.jsonl"),
        (b'filename="quote\\"d.jsonl"', 'quote"d.jsonl'),
        (b'filename=""', ""),
    ],
)
def test_file_names_as_clients_write_them(header: bytes, name: str) -> None:
    part = b'Content-Disposition: form-data; name="file"; ' + header + b"\r\n\r\nx"
    assert read([body_of(part)]) == [("file", name, b"x")]


def test_header_names_are_in_any_case_and_a_preamble_of_line_ends_is_passed_over() -> None:
    part = b'CONTENT-disposition:form-data;name="file"\r\n\r\nx'
    assert read([b"\r\n" + body_of(part)]) == [("file", None, b"x")]


def test_what_follows_the_closing_boundary_is_passed_over() -> None:
    assert read([body_of(PURPOSE) + b"epilogue"]) == [("purpose", None, b"batch")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "before its closing boundary"),
        (b'{"purpose": "batch"}', "can't be read"),
        (body_of(PURPOSE, end=b""), "before its closing boundary"),
        (body_of(PURPOSE, end=b"--xYzZY"), "before its closing boundary"),
        (body_of(FILE)[:-30], "before its closing boundary"),
        (b"--other\r\n" + PURPOSE + b"\r\n--other--\r\n", "can't be read"),
        (body_of(b"\r\nv"), "Content-Disposition"),
        (body_of(b"Content-Disposition: attachment; name=a\r\n\r\nv"), "Content-Disposition"),
        (body_of(b"Content-Disposition: form-data; filename=a\r\n\r\nv"), "Content-Disposition"),
        (body_of(b"no colon\r\n\r\nv"), "can't be read"),
        (body_of(PURPOSE.replace(b"\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n", 1)), "Transfer-Encoding"),
        (body_of(*[part_of(f"p{number}") for number in range(MAX_PARTS + 1)]), "parts"),
        (body_of(b"X: " + b"y" * (MAX_HEADER_BYTES + 1) + b"\r\n\r\nv"), "header size"),
        (body_of(b"X: y\r\n" * 17 + b"\r\nv"), "header count"),
    ],
)
def test_what_is_no_form_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(MalformedForm, match=message):
        read([body])


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
    ],
)
def test_the_boundary_is_that_of_the_content_type(content_type: str, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type", [None, "", "application/json", "multipart/mixed; boundary=a", "multipart/form-data"]
)
def test_a_content_type_without_a_boundary_is_refused(content_type: str | None) -> None:
    with pytest.raises(MalformedForm):
        boundary_of(content_type)


def test_an_overlong_boundary_is_refused() -> None:
    with pytest.raises(MalformedForm):
        FormReader(b"x" * 300)
