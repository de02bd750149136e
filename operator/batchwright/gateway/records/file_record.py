"""A file as the gateway knows it."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from batchwright.api import names

BATCH: Final = "batch"
BATCH_OUTPUT: Final = "batch_output"
Purpose = Literal["batch", "batch_output"]


class FileRecord(Struct, frozen=True, tag_field="record", tag="file"):
    """One file. Written after its bytes are there; as one that has expired before they go, and deleted after that."""

    id: str
    namespace: str
    key: str
    """Of the bytes, under `<batchPath>/<namespace>/`: the id of an upload, `<BatchJob name>/results.jsonl`."""
    bytes: int
    created_at: datetime
    filename: str
    purpose: Purpose
    etag: str = ""
    """Of the bytes."""
    user: str = ""
    expires_at: datetime | None = None
    lines: int | None = None
    """Requests of an upload, blank lines not counted."""
    model: str | None = None
    """The model that the first line of an upload names; None where it names none."""
    batch_id: str | None = None
    """Of what a batch published."""
    version: int = 1


def keys_of(record: FileRecord) -> tuple[str, ...]:
    """Keys of everything that goes with a file, its own last.

    What a batch leaves for another run are request lines of its error file, and belong to that.
    """
    folder, slash, name = record.key.rpartition("/")
    beside = (f"{folder}{slash}{names.RETRY_OBJECT}",) if name == names.ERRORS_OBJECT else ()
    return *beside, record.key
