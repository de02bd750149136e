"""Records of a run: claims, shard records, a worker's own state, and the summary of the merge."""

from datetime import datetime
from typing import Final

from msgspec import Struct, field

from batchwright.batchfile.counts import ProgressCounts, Usage
from batchwright.batchfile.plan_record import FORMAT_VERSION

RESULTS: Final = "results"
ERRORS: Final = "errors"
RETRY: Final = "retry"
KINDS: Final = (RESULTS, ERRORS, RETRY)


class ClaimRecord(Struct, frozen=True, tag_field="record", tag="claim"):
    """Which worker index has a shard. No lease: an index has one pod at a time, and its successor finds the claim."""

    index: int
    attempt: str
    version: int = FORMAT_VERSION


class OpeningRecord(Struct, frozen=True, tag_field="record", tag="opening"):
    """An attempt has gone on with a shard that another attempt had left unfinished.

    The first attempt on a shard writes none: its claim says as much.
    """

    run: int
    index: int
    attempt: str
    finished: int = 0
    """Lines of the shard that were finished when it was opened."""
    kills: int = 0
    """Attempts in a row, until then, that were killed without finishing a line of the shard."""
    version: int = FORMAT_VERSION


class ShardFile(Struct, frozen=True):
    """One of a shard's files, or a published object: its key, size in bytes, and lines. Or a part of another object:
    the same from the byte `start` on.
    """

    key: str
    bytes: int
    lines: int
    etag: str = ""
    """Of a published object, so that another one at the same key is told from it."""
    start: int = 0

    @property
    def end(self) -> int:
        """The byte behind the last one, in the object."""
        return self.start + self.bytes


class Totals(Struct, frozen=True):
    """Counts that add up over shards."""

    completed: int = 0
    failed: int = 0
    usage: Usage = Usage()
    finish_reasons: dict[str, int] = field(default_factory=dict)
    error_codes: dict[str, int] = field(default_factory=dict)


class ShardRecord(Struct, frozen=True, tag_field="record", tag="shard"):
    """The commit of a shard: written by conditional PUT, once. What it names is complete and in input order.

    Of version 2 where the files are parts of what an earlier BatchJob published; `run` is 0 then, since no worker did
    the shard.
    """

    shard: int
    run: int
    index: int
    attempt: str
    lines: int
    totals: Totals
    started_at: datetime
    finished_at: datetime
    results: ShardFile | None = None
    errors: ShardFile | None = None
    retry: ShardFile | None = None
    version: int = FORMAT_VERSION

    def file(self, kind: str) -> ShardFile | None:
        """The file of a kind, None where it would be empty."""
        found = {RESULTS: self.results, ERRORS: self.errors, RETRY: self.retry}[kind]
        assert found is None or isinstance(found, ShardFile)
        return found


class WorkerState(Struct, frozen=True, tag_field="record", tag="worker"):
    """Cumulative counts of a worker index over its pods, from committed shards alone."""

    run: int
    index: int
    shards_completed: int = 0
    totals: Totals = Totals()
    left: dict[int, str] = field(default_factory=dict)
    """Shards that were left unfinished in good order, and by which attempt. One that was killed says nothing. While the
    model server is away, those that are open stand here too.
    """
    open_shards: ProgressCounts | None = None
    """Counts of the shards that are open, of what stands in their segments. Only where a progress object is wanted."""
    version: int = FORMAT_VERSION


class JoinedRecord(Struct, frozen=True, tag_field="record", tag="joined"):
    """Objects that a merge has published by now, so that another attempt of it needn't join them again."""

    content: str
    """Digest of the shard files that they and the others are joined from."""
    published: dict[str, ShardFile]
    version: int = FORMAT_VERSION


class SummaryRecord(Struct, frozen=True, tag_field="record", tag="summary"):
    """What the merge published. `retry` is None where nothing failed."""

    fingerprint: str
    lines: int
    totals: Totals
    published: dict[str, ShardFile]
    finished_at: datetime
    worked_from: datetime | None = None
    """When the first shard was begun that a worker did; None where none did any, or an earlier version wrote this."""
    worked_until: datetime | None = None
    """When the last of them was done."""
    version: int = FORMAT_VERSION
