"""A request that a client sends again makes no second batch, where it bears an `Idempotency-Key`.

What was asked for under a key is noted before the batch is made, together with the id that the batch will have. So a
repetition makes the same batch after a crash in between, and of two that arrive at the same moment the storage lets
one be the first.

The same key with another request is refused with a 400, as Stripe does, after whose header it is named. A 409 would
make the official SDK try again.
"""

import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from batchwright.gateway import errors, ids
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.records.idempotency_record import IdempotencyRecord, has_expired
from batchwright.gateway.records.record_store import Changed, Exists

HEADER: Final = "Idempotency-Key"
LONGEST: Final = 255
_TRIES: Final = 3


def check_key(key: str) -> None:
    """Raises ApiError (400) for one that can't be a key."""
    if not 1 <= len(key) <= LONGEST or not (key.isascii() and key.isprintable()):
        raise errors.invalid_value(HEADER, f"{HEADER} must have 1 to {LONGEST} printable ASCII characters.")


def digest_of(request: Mapping[str, Any]) -> str:
    """Of what is asked for, however it is written."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


def known_batch(gateway: Gateway, namespace: str, key: str, digest: str) -> str | None:
    """The id of the batch that this request made before; None for a new one. Raises ApiError for another request."""
    stored = gateway.idempotency.get(namespace, _name(key))
    if stored is None or has_expired(stored.record, gateway.clock()):
        return None
    return _same(stored.record, digest)


def claim(gateway: Gateway, namespace: str, key: str, digest: str, batch_id: str) -> str:
    """Note that this request makes the batch of this id.

    Returns:
        The id that its batch has: that of somebody who was faster, perhaps.

    Raises:
        ApiError: the key was used for another request.
    """
    name = _name(key)
    # Kept from the batch's own beginning on: a day later, and not earlier, its batch may be forgotten.
    record = IdempotencyRecord(name, namespace, batch_id, digest, ids.created_at(batch_id))
    for _ in range(_TRIES):
        try:
            return gateway.idempotency.create(namespace, name, record).record.batch_id
        except Exists:
            stored = gateway.idempotency.get(namespace, name)
        if stored is None:  # swept just now
            continue
        if not has_expired(stored.record, gateway.clock()):
            return _same(stored.record, digest)
        try:
            return gateway.idempotency.replace(namespace, name, stored, record).record.batch_id
        except Changed:
            continue
    raise errors.unavailable(f"Others use the same {HEADER} at this moment. Try again.")


def _same(record: IdempotencyRecord, digest: str) -> str:
    if record.digest == digest:
        return record.batch_id
    raise ApiError(
        HTTPStatus.BAD_REQUEST,
        f"This {HEADER} was used for another request within the last 24 hours. Use another key for another batch.",
        code="idempotency_key_reused",
        param=HEADER,
    )


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
