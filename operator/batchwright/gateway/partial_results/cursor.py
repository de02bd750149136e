"""How far a client has read the results of a running batch, in a text that it sends again."""

import base64
import binascii
import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from batchwright.api.batchjob import MAX_SHARDS
from batchwright.batchfile.number_ranges import compressed, expanded

_TEXT: Final = re.compile(r"^([0-9,-]*)/([0-9]{0,9})/([0-9]{1,15})\Z")
_SHARDS: Final = 10 * MAX_SHARDS
"""More than a plan has; a bound on what a made-up cursor can ask for."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The shards whose lines were all sent, and for one more the bytes of its lines that were."""

    done: Set[int] = frozenset()
    shard: int | None = None
    offset: int = 0
    """Into the shard's results followed by its errors, at the beginning of a line."""

    def encoded(self) -> str:
        """The text. Opaque to clients."""
        text = f"{compressed(self.done)}/{'' if self.shard is None else self.shard}/{self.offset}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str) -> Cursor:
    """Read a cursor.

    Raises:
        ValueError: it is none of ours.
    """
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        done, shard, offset = _TEXT.findall(plain)[0]
        return Cursor(frozenset(expanded(done, _SHARDS)), int(shard) if shard else None, int(offset))
    except (binascii.Error, UnicodeDecodeError, IndexError, ValueError) as error:
        raise ValueError("not a place in the results") from error
