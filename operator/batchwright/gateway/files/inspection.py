"""What an upload's bytes are, found out while they pass: whether they are UTF-8, how many lines, which model. Pure.

Bytes may come in any pieces; the findings are the same. What makes a *line* unusable is for the batch's validation,
which knows all lines; here is refused what can't be a file of lines at all.
"""

import codecs
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import Struct

from batchwright.batchfile.lines import BYTE_ORDER_MARK, WHITE_SPACE
from batchwright.batchfile.undecodable import UNDECODABLE
from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.form import FILE

HELD_BYTES: Final = 1 << 20
"""Of the first line, in memory; a longer one is read again from the storage."""
LONGEST_MODEL: Final = 512
"""Characters."""

_HEAD_BYTES: Final = 4
_NEW_LINE: Final = ord("\n")
_NOT_TEXT: Final = {
    b"\x1f\x8b": "compressed with gzip: upload it uncompressed",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: upload it uncompressed",
    b"PK\x03\x04": "a zip archive: upload the JSON Lines in it",
    b"\xff\xfe": "UTF-16: write it as UTF-8",
    b"\xfe\xff": "UTF-16: write it as UTF-8",
}
_SPACE_IN_LINE: Final = WHITE_SPACE + b"\v\f"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a whole upload is."""

    lines: int
    """That are not blank."""
    model: str | None
    """That the first of them asks for: see `model_of`."""
    unread_at: int | None = None
    """Where the first of them begins, in bytes from the beginning, if it was too long to be looked at."""


class _Search(Enum):
    """For the first line that is not blank."""

    BLANK = auto()
    BEGUN = auto()
    FOUND = auto()
    TOO_LONG = auto()


class Inspection:
    """Looks at one upload. Its memory is bounded by HELD_BYTES."""

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ends = 0  # of lines, blank ones too
        self._lines = 0
        self._in_line = False  # that is not blank
        self._first = bytearray()
        self._first_at = 0
        self._search = _Search.BLANK
        self._model: str | None = None

    def add(self, data: bytes) -> None:
        """Look at the next bytes. Raises ApiError (400), naming the line, where this is no UTF-8 text."""
        if self._head is not None:
            data = self._head + data
            if len(data) < _HEAD_BYTES:
                self._head = data
                return
            data = self._behind_head(data)
        self._look(data)

    def finish(self) -> Findings:
        """Say that nothing follows. Raises ApiError as `add` does."""
        if self._head is not None:
            self._look(self._behind_head(self._head))
        self._decode(b"", final=True)
        if self._search is _Search.BEGUN:
            self._found()
        return Findings(self._lines, self._model, self._first_at if self._search is _Search.TOO_LONG else None)

    def _behind_head(self, data: bytes) -> bytes:
        """What the beginning tells, and the bytes behind a byte order mark."""
        self._head = None
        for signature, what in _NOT_TEXT.items():
            if data.startswith(signature):
                raise _refused(1, f"the file is {what}")
        if b"\0" in data[:_HEAD_BYTES]:  # how RFC 4627 §3 tells the encodings of JSON apart
            raise _refused(1, "the file is UTF-16 or UTF-32: write it as UTF-8")
        if not data.startswith(BYTE_ORDER_MARK):
            return data
        self._first_at = len(BYTE_ORDER_MARK)
        return data[len(BYTE_ORDER_MARK) :]

    def _look(self, data: bytes) -> None:
        self._decode(data)
        self._ends += data.count(b"\n")
        self._count(data)
        if self._search in (_Search.BLANK, _Search.BEGUN):
            self._find_first(data)

    def _decode(self, data: bytes, *, final: bool = False) -> None:
        try:
            self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            line = self._ends + error.object[: error.start].count(b"\n") + 1
            raise _refused(line, f"byte 0x{error.object[error.start]:02x} is no UTF-8") from error

    def _count(self, data: bytes) -> None:
        """Lines are what remains between line ends once their spaces are gone."""
        marks = data.translate(None, _SPACE_IN_LINE)
        if marks:
            goes_on = self._in_line and marks[0] != _NEW_LINE
            self._lines += len(marks.split()) - goes_on
            self._in_line = marks[-1] != _NEW_LINE

    def _find_first(self, data: bytes) -> None:
        if self._search is _Search.BLANK:
            rest = data.lstrip(WHITE_SPACE + b"\n")
            self._first_at += len(data) - len(rest)
            if not rest:
                return
            data, self._search = rest, _Search.BEGUN
        end = data.find(b"\n")
        self._first += data if end < 0 else data[:end]
        if len(self._first) > HELD_BYTES:
            self._first.clear()
            self._search = _Search.TOO_LONG
        elif end >= 0:
            self._found()

    def _found(self) -> None:
        self._search = _Search.FOUND
        self._model = model_of(bytes(self._first))
        self._first.clear()


class _Body(Struct):
    model: str


class _Line(Struct):
    body: _Body


def model_of(line: bytes) -> str | None:
    """The model that a line asks for; None where it names none, or is no request: validation will say so."""
    try:
        model = msgspec.json.decode(line, type=_Line).body.model
    except UNDECODABLE:
        return None
    return model if len(model) <= LONGEST_MODEL else None


def _refused(line: int, why: str) -> ApiError:
    return errors.invalid_value(FILE, f"The file must be UTF-8 text, one JSON object a line. Line {line}: {why}.")
