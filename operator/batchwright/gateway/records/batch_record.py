"""A batch as the gateway knows it: what was asked for, and what became of it."""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from batchwright.batchfile.counts import Usage

OPENAI: Final = "openai"
PATHS: Final = "paths"
Face = Literal["openai", "paths"]
Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
"""OpenAI's words: clients loop until they see a terminal one that they know, so no other may appear."""
TERMINAL: Final[frozenset[Status]] = frozenset({"failed", "completed", "expired", "cancelled"})


class BatchError(Struct, frozen=True):
    """One entry of a batch's errors."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Counts(Struct, frozen=True):
    """Requests by outcome, as OpenAI counts: those that never ran because the batch was stopped are in neither."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class Times(Struct, frozen=True):
    """When each state was reached."""

    in_progress_at: datetime | None = None
    finalizing_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    expired_at: datetime | None = None
    cancelling_at: datetime | None = None
    cancelled_at: datetime | None = None


class Published(Struct, frozen=True):
    """What the batch published, by its size. None where it is empty."""

    output_bytes: int | None = None
    errors_bytes: int | None = None
    retry_bytes: int | None = None


class BatchState(Struct, frozen=True):
    """Where a batch stands: read from its BatchJob while that lives, kept in the record at its end."""

    status: Status
    message: str = ""
    """For people: what is going on, or why it failed."""
    model: str | None = None
    endpoint: str | None = None
    counts: Counts = Counts()
    usage: Usage = Usage()
    errors: tuple[BatchError, ...] = ()
    times: Times = Times()
    published: Published = Published()
    error_codes: dict[str, int] = {}
    response_time: float | None = None
    """Seconds that the run took, once it ended."""
    rate: str | None = None
    """Requests a second, lately, for people, such as `412/s`."""
    eta: str | None = None
    """Time left at that rate, for people, such as `3m`."""
    fingerprint: str | None = None
    """Folder of the work objects, while there are some."""

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.status in TERMINAL


class PathRequest(Struct, frozen=True):
    """What a path-based batch was asked for, as its client reads it again."""

    cluster: str
    framework: str
    input_file: str
    output_folder_path: str
    results_file: str
    errors_file: str
    progress_file: str


class Ending(Struct, frozen=True):
    """The end of a batch: what it shows from then on, with or without its BatchJob."""

    state: BatchState
    output_file_id: str | None = None
    error_file_id: str | None = None
    unstarted: bool = False
    """It ended before it had a BatchJob; one that turns up all the same is deleted."""


class BatchRecord(Struct, frozen=True, tag_field="record", tag="batch"):
    """One batch. Written before its BatchJob, which it is enough to create; again with the BatchJob's UID, at a cancel,
    and at the end.
    """

    id: str
    namespace: str
    user: str
    face: Face
    created_at: datetime
    expires_at: datetime
    completion_window: str
    endpoint: str | None
    spec: dict[str, Any]
    """`spec` of the BatchJob; empty for a batch that failed before one was made."""
    input_file_id: str | None = None
    metadata: dict[str, str] | None = None
    output_expires_after: int | None = None
    """Seconds from the end of the batch that its files are kept."""
    path_request: PathRequest | None = None
    batchjob_uid: str | None = None
    """None until the BatchJob is known to exist."""
    cancelling_at: datetime | None = None
    """When a cancel was asked for here: it holds even where the BatchJob is not there yet, or is gone."""
    ending: Ending | None = None
    """None until the batch is over, and what it published are files."""
    version: int = 1
