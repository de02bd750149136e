"""A file as the gateway knows it."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

BATCH: Final = "batch"
BATCH_OUTPUT: Final = "batch_output"
Purpose = Literal["batch", "batch_output"]


class FileRecord(Struct, frozen=True, tag_field="record", tag="file"):
    """One file. Written once, after its bytes are there; deleted before they go."""

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
