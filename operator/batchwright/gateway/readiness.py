"""Whether the storage can be used: by an object of the gateway's own that is there once it could be written."""

from batchwright.gateway.context import Gateway
from batchwright.storage.errors import NotFound

_CONTENT = b"Batchwright's gateway checks that it can use this store.\n"


def mark_ready(gateway: Gateway) -> None:
    """Write the object. Raises StorageError."""
    gateway.root.write(_key(gateway), _CONTENT)


def check_ready(gateway: Gateway) -> None:
    """Look for the object, and write it where it is missing. Raises StorageError where the storage can't be used."""
    try:
        gateway.root.head(_key(gateway))
    except NotFound:
        mark_ready(gateway)


def _key(gateway: Gateway) -> str:
    return f"{gateway.root_prefix}ready"
