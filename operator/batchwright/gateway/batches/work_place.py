"""Where a batch's work lies, as far as the gateway can look there: what a BatchJob leaves behind when it is deleted.

The place is the record's, which lies where no tenant writes, and was checked when the batch was made: a tenant's own
folder in batchPath, or its part of the shared volume, where the gateway has that mounted too. Nothing else is looked
at, since the gateway's own credentials reach more than a tenant's.
"""

from dataclasses import dataclass
from pathlib import Path

from batchwright.batchfile.layout import OutputLayout
from batchwright.gateway import ids
from batchwright.gateway.context import Gateway
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord
from batchwright.gateway.volumes import FILE_SCHEME, tenant_root
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """A store and what lies where in it. No symbolic link leads out of it."""

    store: ObjectStore
    layout: OutputLayout


def work_place(gateway: Gateway, record: BatchRecord) -> WorkPlace | None:
    """Where a batch's work lies; None where the gateway can't look there."""
    folder = gateway.tenant(record.namespace)
    if record.face == OPENAI:
        return WorkPlace(folder.store, OutputLayout(folder.key(f"{ids.batchjob_name(record.id)}/")))
    output = record.spec["output"]
    uri = f"{output['uri']}{output['folder']}/"
    if uri.startswith(folder.uri):
        return WorkPlace(folder.store, OutputLayout(folder.key(uri.removeprefix(folder.uri))))
    shared = gateway.settings.shared_volume
    root = f"{tenant_root(shared, record.namespace)}/" if shared is not None else None
    if root is None or not uri.startswith(f"{FILE_SCHEME}{root}") or not Path(root).is_dir():
        return None
    return WorkPlace(FileStore(Path(root)), OutputLayout(uri.removeprefix(f"{FILE_SCHEME}{root}")))
