"""A tenant's own part of the storage."""

from dataclasses import dataclass

from batchwright.storage.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class TenantFolder:
    """`<batchPath>/<tenant>/`, as a store and a prefix in it.

    On a volume the store's root is the folder itself, which no symbolic link leads out of; in a bucket the prefix holds
    it. Names that are put behind it are made of checked ids alone.
    """

    namespace: str
    store: ObjectStore
    prefix: str
    uri: str
    """`<batchPath>/<tenant>/`, literally."""

    def key(self, name: str) -> str:
        """Key of a name in the folder: an id of an upload, `<BatchJob name>/results.jsonl`."""
        return f"{self.prefix}{name}"
