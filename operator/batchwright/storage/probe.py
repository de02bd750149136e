"""Finding out, before any work is done, whether a store does what a run relies on."""

from __future__ import annotations

import logging
import secrets

from batchwright.storage.errors import Misconfigured, NotSupported, PreconditionFailed
from batchwright.storage.location import join_key
from batchwright.storage.protocol import DeleteFailure, ObjectStore

logger = logging.getLogger(__name__)

_CONTENT = b"Batchwright checks that this store can be written. This object can be deleted.\n"


def probe_readable(store: ObjectStore, key: str) -> None:
    """Read the first byte of an object. Raises what reading raises (NotFound, AccessDenied, …)."""
    next(store.stream(key, end=1), None)


def probe_listable(store: ObjectStore, prefix: str) -> None:
    """List the first object under a prefix. Raises what listing raises."""
    next(store.list(prefix), None)


def probe_writable(store: ObjectStore, prefix: str) -> tuple[DeleteFailure, ...]:
    """Write a small object under the prefix and delete it. Raises what writing raises; returns a refused
    delete.
    """
    key = _probe_key(prefix)
    store.write(key, _CONTENT)
    return _clean_up(store, key)


def probe_conditional_put(store: ObjectStore, prefix: str) -> bool:
    """Whether a second write with `if_none_match` is refused, as it must be for claims and commits to be
    exclusive.

    False: the store answers 200 in spite of If-None-Match, or does not know the header. Where deletes are
    refused, one small object is left under the prefix. Raises what writing raises (AccessDenied, …).
    """
    key = _probe_key(prefix)
    try:
        store.write(key, _CONTENT, if_none_match=True)
    except PreconditionFailed:
        pass  # the name is new, so it met its own object: the answer to the first try was lost
    except (NotSupported, Misconfigured) as error:
        return _refuses_the_header(store, key, error)
    try:
        store.write(key, _CONTENT, if_none_match=True)
    except PreconditionFailed:
        return True
    finally:
        _clean_up(store, key)
    return False


def _refuses_the_header(store: ObjectStore, key: str, error: NotSupported | Misconfigured) -> bool:
    """False when a plain write works where the conditional one did not; else raises what the plain write
    raises.
    """
    store.write(key, _CONTENT)
    _clean_up(store, key)
    logger.info("conditional writes are not supported: %s", error)
    return False


def _probe_key(prefix: str) -> str:
    return join_key(prefix, f".batchwright-probe-{secrets.token_hex(8)}")


def _clean_up(store: ObjectStore, key: str) -> tuple[DeleteFailure, ...]:
    failures = store.delete([key])
    for failure in failures:
        logger.info("the probe object was left behind: %s", failure.reason)
    return failures
