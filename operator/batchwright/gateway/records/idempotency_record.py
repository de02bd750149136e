"""Which batch a request made that a client may send again."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

KEPT: Final = timedelta(hours=24)
"""How long a repetition is known as one."""


class IdempotencyRecord(Struct, frozen=True, tag_field="record", tag="idempotency"):
    """One use of an `Idempotency-Key`. Written before the batch; never changed, but replaced once it is too old."""

    id: str
    """SHA-256 of the key, in hex: a key may have characters that a name in storage may not."""
    namespace: str
    batch_id: str
    digest: str
    """Of what was asked for, to tell a repetition from another request."""
    created_at: datetime
    version: int = 1


def has_expired(record: IdempotencyRecord, now: datetime) -> bool:
    """Whether the same key is a new one by now."""
    return now >= expires_at(record)


def expires_at(record: IdempotencyRecord) -> datetime:
    """From when on the same key is a new one."""
    return record.created_at + KEPT
