"""What a JWT says of itself. Pure, and nothing of it is verified: that is the API server's, which alone knows the keys.

What is no JWT in form, or has ended by its own words, need not be shown to the API server.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from batchwright.batchfile.undecodable import UNDECODABLE

LEEWAY_SECONDS: Final = 300.0
"""By so much the clocks of the API server and of this machine may differ."""
_FORM: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
_LONGEST: Final = 16_384


class _Header(Struct, frozen=True):
    alg: str


class _Claims(Struct, frozen=True):
    iss: str = ""
    sub: str = ""
    exp: float | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What the gateway reads of a token."""

    identity: bytes
    """Hash of who it says that it is of: issuer and subject."""
    expires_at: float | None
    """Seconds since the epoch; None where it says no end."""

    def has_ended(self, now: float) -> bool:
        """Whether it is over by any clock. now: seconds since the epoch."""
        return self.expires_at is not None and self.expires_at + LEEWAY_SECONDS < now


def read_claims(text: str) -> Claims | None:
    """The claims of a token; None where it is no signed JWT of two JSON objects and a signature."""
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        return None
    try:
        header = msgspec.json.decode(_decoded(form[1]), type=_Header)
        claims = msgspec.json.decode(_decoded(form[2]), type=_Claims)
    except (binascii.Error, *UNDECODABLE):
        return None
    if header.alg.lower() in ("", "none"):
        return None
    identity = msgspec.json.encode((claims.iss, claims.sub))
    return Claims(hashlib.sha256(identity).digest(), claims.exp)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
