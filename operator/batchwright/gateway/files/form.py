"""The fields of an upload, checked as they come. Pure."""

from dataclasses import dataclass, field
from typing import Final

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.records.file_record import BATCH

FILE: Final = "file"
PURPOSE: Final = "purpose"
ANCHOR: Final = "expires_after[anchor]"
SECONDS: Final = "expires_after[seconds]"
CREATED_AT: Final = "created_at"
SHORTEST_SECONDS: Final = 3600
LONGEST_SECONDS: Final = 2_592_000
FIELD_BYTES: Final = 4096
"""Of one field other than the file."""
UNNAMED: Final = "upload"
LONGEST_FILENAME: Final = 255
"""Characters."""

_LONGEST_NUMBER: Final = 12


@dataclass
class UploadForm:
    """What a form says beside the file."""

    purpose: str | None = None
    expires_after: int | None = None
    """Seconds from the file's creation."""
    _values: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: bytes) -> None:
        """Take a field. One that is unknown is passed over, as by OpenAI. Raises ApiError."""
        if name in self._values:
            raise errors.invalid_value(name, f"'{name}' is given twice.")
        if name not in (PURPOSE, ANCHOR, SECONDS):
            if name.startswith("expires_after"):  # passed over, the file would be kept for ever
                raise errors.invalid_value(name[:100], f"Write expires_after as the two fields {ANCHOR} and {SECONDS}.")
            return
        text = value.decode("utf-8", "replace")
        self._values[name] = text
        if name == PURPOSE:
            self.purpose = _one_of(name, text, BATCH)
        elif name == ANCHOR:
            _one_of(name, text, CREATED_AT)
        else:
            self.expires_after = _seconds(text)

    def check(self) -> None:
        """See that nothing is missing. Raises ApiError."""
        if self.purpose is None:
            raise errors.missing_parameter(PURPOSE)
        for given, needed in ((ANCHOR, SECONDS), (SECONDS, ANCHOR)):
            if given in self._values and needed not in self._values:
                raise errors.missing_parameter(needed)


def too_long(name: str) -> ApiError:
    """A field of more bytes than any value has."""
    return errors.invalid_value(name[:100], f"'{name[:100]}' is longer than {FIELD_BYTES} bytes.")


def usable_filename(given: str | None) -> str:
    """The name that a file is shown under.

    Folders before it are dropped (RFC 7578 §4.2), and bytes without a name are called `upload`. A name that is too long
    is refused rather than cut: it comes before the bytes, so nothing is lost, and a cut name, which misses its ending,
    is not the one that its owner looks for.

    Raises:
        ApiError: more than 255 characters, or control characters.
    """
    name = (given or "").replace("\\", "/").rpartition("/")[2].strip()
    if name in ("", ".", ".."):
        return UNNAMED
    if len(name) > LONGEST_FILENAME:
        raise errors.invalid_value(FILE, f"The file's name is longer than {LONGEST_FILENAME} characters.")
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in name):  # noqa: PLR2004 (C0, DEL, C1)
        raise errors.invalid_value(FILE, "The file's name has control characters.")
    return name


def _one_of(name: str, value: str, supported: str) -> str:
    if value != supported:
        raise errors.not_one_of(name, value, [supported])
    return value


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise errors.invalid_type(SECONDS, "an integer")
    if not SHORTEST_SECONDS <= int(text) <= LONGEST_SECONDS:
        raise errors.invalid_value(
            SECONDS, f"'{SECONDS}' must be from {SHORTEST_SECONDS} to {LONGEST_SECONDS} (an hour to 30 days)."
        )
    return int(text)
