"""API keys: `bw-<id>-<secret>`, of which only a hash is kept, with whom the key is for.

The hash is one round of SHA-256. Slow hashes and salts protect what people choose; a secret here is 256 random bits,
which nobody finds by trying, however fast. So a request costs microseconds, not a tenth of a second.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from batchwright.gateway.identity.namespaces import is_namespace

PREFIX: Final = "bw-"
RANDOM_BYTES: Final = 38
"""That a new key is made of: 6 for its id, 32 for its secret."""
_ID_BYTES: Final = 6
_KEY: Final = re.compile(r"bw-([0-9a-f]{12})-[A-Za-z0-9_-]{43}")

_LONGEST_USER: Final = 253


class KeyEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a key: one entry of the Secret, as JSON, under the key's id."""

    hash: Annotated[str, Meta(min_length=64, max_length=64)]
    """SHA-256 of the key's text, in hex."""
    namespace: str | None
    """The tenant; None for an administrator's key, and for no other."""
    user: str
    """A name for annotations and logs."""
    admin: bool
    created_at: Annotated[datetime, Meta(tz=True)]


@dataclass(frozen=True, slots=True, repr=False)
class NewKey:
    """A key that was just made; its text is nowhere else."""

    id: str
    text: str
    entry: KeyEntry


def new_key(random: bytes, *, namespace: str | None, user: str, admin: bool, now: datetime) -> NewKey:
    """Make a key of `RANDOM_BYTES` random bytes.

    Raises:
        ValueError: namespace or user can't be one, or the namespace doesn't go with `admin`.
    """
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a key is made of {RANDOM_BYTES} random bytes")
    identity = random[:_ID_BYTES].hex()
    secret = base64.urlsafe_b64encode(random[_ID_BYTES:]).rstrip(b"=").decode()
    text = f"{PREFIX}{identity}-{secret}"
    entry = KeyEntry(hash_of(text), namespace, user, admin, now)
    _check(entry)
    return NewKey(identity, text, entry)


def encode_entry(entry: KeyEntry) -> bytes:
    """An entry of the Secret."""
    return msgspec.json.encode(entry)


def decode_entry(data: bytes) -> KeyEntry:
    """Read an entry of the Secret. Raises ValueError where it isn't one."""
    entry = msgspec.json.decode(data, type=KeyEntry)  # its errors are ValueErrors
    _check(entry)
    return entry


def decode_entries(data: Mapping[str, bytes]) -> tuple[dict[str, KeyEntry], list[str]]:
    """The entries of the Secret by key id, and the names of those that can't be used."""
    entries, damaged = {}, []
    for identity, value in data.items():
        try:
            entry = decode_entry(value)
        except ValueError:
            damaged.append(identity)
            continue
        entries[identity] = entry
    return entries, sorted(damaged)


def find_key(entries: Mapping[str, KeyEntry], text: str) -> KeyEntry | None:
    """The entry of a key that a client sent; None where it is unknown. Takes as long for a wrong secret as for the
    right one; that an id exists is no secret.
    """
    form = _KEY.fullmatch(text)
    entry = entries.get(form[1]) if form else None
    return entry if entry is not None and hmac.compare_digest(entry.hash, hash_of(text)) else None


def is_api_key(text: str) -> bool:
    """Whether a client meant one of our keys."""
    return text.startswith(PREFIX)


def hash_of(text: str) -> str:
    """What is kept of a key's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _check(entry: KeyEntry) -> None:
    if not entry.user.isprintable() or entry.user != entry.user.strip() or not 1 <= len(entry.user) <= _LONGEST_USER:
        raise ValueError(f"a user's name is 1 to {_LONGEST_USER} printable characters, without blanks around it")
    if entry.admin and entry.namespace is not None:
        raise ValueError("an administrator's key belongs to no namespace: leave it out")
    if not entry.admin and entry.namespace is None:
        raise ValueError("a key belongs to a namespace, unless it is an administrator's: name it")
    if entry.namespace is not None and not is_namespace(entry.namespace):
        raise ValueError(f"{entry.namespace!r} can't be the name of a namespace")
