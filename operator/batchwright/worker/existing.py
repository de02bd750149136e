"""Whether an object is there."""

from batchwright.storage.protocol import ObjectInfo, ObjectStore


def find(store: ObjectStore, key: str) -> ObjectInfo | None:
    """An object, if it exists. Asked by listing: S3 answers a read of a missing object with 403 or 404, as it likes."""
    first = next(store.list(key), None)
    return first if first is not None and first.key == key else None
