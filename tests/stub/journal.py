"""Arrivals and answers in a file, so that they are known after the server was killed and started again."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

MAX_BYTES = 64 << 20
Entry = tuple[Literal["arrived", "answered", "turned_away"], str]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Journal:
    """One line an event, written before anything else is done with it. It stops at `max_bytes`, and then says so.

    A line that the death of the server cut off is dropped at the next start. A power cut may lose lines.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Open the file, or make it. Raises OSError."""
        self._max_bytes = max_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        content = path.read_bytes()
        whole = content.rpartition(b"\n")[0]
        self._entries = whole.split(b"\n") if whole else []
        self._size = len(whole) + 1 if whole else 0
        os.ftruncate(self._file, self._size)
        self.whole = True
        """False once events are missing from it."""

    def replay(self) -> Iterator[Entry]:
        """What earlier servers wrote, in its order; once only."""
        entries, self._entries = self._entries, []
        for entry in entries:
            with contextlib.suppress(msgspec.DecodeError):
                yield _decode(entry)

    def note(self, entry: Entry) -> None:
        """Add an event."""
        line = _encode(entry) + b"\n"
        if self._size + len(line) > self._max_bytes:
            self.whole = False
            return
        os.write(self._file, line)
        self._size += len(line)

    def clear(self) -> None:
        """Forget everything."""
        os.ftruncate(self._file, 0)
        self._size, self._entries, self.whole = 0, [], True

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._file)
