"""multipart/form-data as it comes in: pieces of bytes in, beginnings, data and ends of parts out. Pure.

The parser is python-multipart's; here are the bounds, and what makes a body no form. RFC 7578 is the source of the
rules.
"""

import logging
from dataclasses import dataclass
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

MAX_PARTS: Final = 64
MAX_HEADERS: Final = 16
"""Of one part."""
MAX_HEADER_BYTES: Final = 16 << 10
"""Of one header of a part. Long enough for every usable file name, and for an error that names what is too long."""

_FORM: Final = b"multipart/form-data"
_PLAIN_ENCODINGS: Final = (b"", b"7bit", b"8bit", b"binary")

# It would log a character of the body with each error; the error itself is answered.
logging.getLogger("python_multipart.multipart").setLevel(logging.CRITICAL)


class MalformedForm(Exception):  # noqa: N818
    """A body that is no multipart/form-data, or exceeds a bound; the message says how."""


@dataclass(frozen=True, slots=True)
class PartBegins:
    """A part begins."""

    name: str
    filename: str | None
    """As the client wrote it: see `form.usable_filename`."""


@dataclass(frozen=True, slots=True)
class PartData:
    """The next bytes of the part that began last; never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PartEnds:
    """The part that began last is whole."""


FormEvent = PartBegins | PartData | PartEnds


def boundary_of(content_type: str | None) -> bytes:
    """The boundary that a Content-Type names. Raises MalformedForm where it is none of a form."""
    kind, options = parse_options_header(content_type)
    if kind != _FORM:
        raise MalformedForm("Send the file as multipart/form-data, with the parts 'purpose' and 'file'.")
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise MalformedForm("The Content-Type multipart/form-data names no boundary.")
    return boundary


class FormReader:
    """Reads one form. Its memory is that of the headers of one part."""

    def __init__(self, boundary: bytes) -> None:
        """Raises MalformedForm where the boundary is too long."""
        self._events: list[FormEvent] = []
        self._headers: dict[bytes, bytes] = {}
        self._name = bytearray()
        self._value = bytearray()
        self._parts = 0
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
                max_header_count=MAX_HEADERS,
                max_header_size=MAX_HEADER_BYTES,
            )
        except FormParserError as error:
            raise MalformedForm(f"The multipart body can't be read: {error}.") from error

    def feed(self, data: bytes) -> list[FormEvent]:
        """What the next bytes bring. Raises MalformedForm."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise MalformedForm(f"The multipart body can't be read: {error}.") from error
        events, self._events = self._events, []
        return events

    def finish(self) -> None:
        """Say that nothing follows. Raises MalformedForm where the closing boundary is missing."""
        if not self._ended:
            raise MalformedForm("The multipart body ends before its closing boundary.")

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedForm(f"The multipart body has more than {MAX_PARTS} parts.")
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value).strip()
        self._name.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        encoding = self._headers.get(b"content-transfer-encoding", b"").lower()
        if encoding not in _PLAIN_ENCODINGS:
            raise MalformedForm("A part has a Content-Transfer-Encoding: send its bytes as they are.")
        kind, options = parse_options_header(self._headers.get(b"content-disposition"))
        if kind != b"form-data" or b"name" not in options:
            raise MalformedForm('A part has no header `Content-Disposition: form-data; name="…"`.')
        filename = options.get(b"filename")
        self._events.append(PartBegins(_text(options[b"name"]), None if filename is None else _text(filename)))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(PartData(data[start:end]))

    def _on_part_end(self) -> None:
        self._events.append(PartEnds())

    def _on_end(self) -> None:
        self._ended = True


def _text(value: bytes) -> str:
    """Clients write UTF-8 (RFC 7578 §5.1); a name in another encoding is not worth refusing a file for."""
    return value.decode("utf-8", "replace")
