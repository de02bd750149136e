"""The tenants that have anything in the storage, be it without a record."""

import os
from collections.abc import Iterator
from pathlib import Path

from batchwright.gateway.identity.namespaces import is_namespace
from batchwright.storage.location import FILE, Location
from batchwright.storage.protocol import ObjectStore


def tenants_in_storage(batches: Location, bucket: ObjectStore) -> Iterator[str]:
    """Names of the folders in batchPath that can be tenants'. A tenant's unfinished uploads alone make no folder in a
    bucket. Raises StorageError, or OSError from a volume.

    batches: batchPath
    bucket: the store that has it, where it is no volume
    """
    names = _on_volume(Path(batches.bucket)) if batches.scheme == FILE else folders(bucket, batches.key)
    return (name for name in names if is_namespace(name))


def folders(store: ObjectStore, prefix: str) -> Iterator[str]:
    """Names of the folders under a prefix: one request for each, however much is in them. Raises StorageError."""
    after: str | None = None
    while (name := _next_folder(store, prefix, after)) is not None:
        yield name
        after = f"{prefix}{name}0"  # "0" comes right after "/"


def _next_folder(store: ObjectStore, prefix: str, after: str | None) -> str | None:
    for info in store.list(prefix, start_after=after):
        name, slash, _ = info.key.removeprefix(prefix).partition("/")
        if slash:
            return name
    return None


def _on_volume(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
