"""Making a batch once, however often its client sends the request."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from batchwright.gateway import ids
from batchwright.gateway.batches import idempotency
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.making import make_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import BatchRecord, BatchState

ACCEPTED: Final = BatchState("validating")
"""What the answer to a creation shows: as at OpenAI, where nothing of the input has been looked at by then."""


def make_once(
    gateway: Gateway,
    namespace: str,
    key: str | None,
    asked: Mapping[str, Any],
    record_of: Callable[[str], BatchRecord],
) -> tuple[BatchRecord, BatchState]:
    """Make a batch, or find the one that the same request made before.

    key: the client's Idempotency-Key; None where it sent none
    asked: everything of the request that makes it another one
    record_of: gives the record of the batch of an id; of the same id it is the same, whoever makes it

    Raises:
        ApiError: the key can't be one, or was used for another request; what `record_of` and `make_batch` raise.
        StorageError, KubernetesError: as `make_batch` and `current` do.
    """
    if key is None:
        return make_batch(gateway, record_of(ids.new_batch_id(gateway.clock()))), ACCEPTED
    idempotency.check_key(key)
    digest = idempotency.digest_of(asked)
    known = idempotency.known_batch(gateway, namespace, key, digest)
    if known is not None and (found := gateway.batches.get(namespace, known)) is not None:
        stored, state = current(gateway, found)
        return stored.record, state
    # Everything that may be refused is looked at before the key is taken.
    record = record_of(known or ids.new_batch_id(gateway.clock()))
    if known is None and (first := idempotency.claim(gateway, namespace, key, digest, record.id)) != record.id:
        record = record_of(first)
    return make_batch(gateway, record), ACCEPTED
