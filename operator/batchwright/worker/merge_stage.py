"""The stage `merge` as a pod does it: it waits out a store that is away, and tells how far it is."""

from datetime import datetime
from typing import Final

from batchwright.api.reports import MergeProgress, MergeReport, ShardsMissingReport
from batchwright.api.undone import Undone
from batchwright.storage.patience import Patience
from batchwright.worker.http import Served, serving_in_thread
from batchwright.worker.merge import merge
from batchwright.worker.stage import Stage

PATIENCE_SECONDS: Final = 15 * 60.0
"""How long the store may be away before the Job controller gets the pod back, which then waits much longer."""


class Progress:
    """Shards closed and bytes joined by now. What is joined again after a failure is counted once."""

    def __init__(self, run: int, patience: Patience) -> None:
        self._run = run
        self._patience = patience
        self._joined = self._total = 0
        self._closed = self._to_close = 0

    def close(self, closed: int, total: int) -> None:
        """So many unfinished shards of those that were found have their lines."""
        self._closed, self._to_close = closed, total

    def update(self, joined: int, total: int) -> None:
        """So many bytes of all are joined."""
        self._joined, self._total = max(self._joined, min(joined, total)), total

    def report(self) -> MergeProgress:
        """What is served."""
        return MergeProgress(run=self._run, bytes_joined=self._joined, bytes_total=self._total, message=self._message())

    def _message(self) -> str:
        if failure := self._patience.failure:
            return f"Waiting for the storage: {failure}"
        if self._closed < self._to_close:
            return f"Closing unfinished shards: {self._closed} of {self._to_close}"
        return ""


def merge_patiently(
    stage: Stage,
    *,
    fingerprint: str,
    run: int,
    port: int,
    undone: Undone | None = None,
    began: datetime | None = None,
) -> MergeReport | ShardsMissingReport:
    """Merge, and serve the progress at a port meanwhile.

    Raises:
        StageFailed, StorageError, RecordError, OSError: as `merge` does, StorageError where the store stayed away.
    """
    patience = Patience(PATIENCE_SECONDS)
    progress = Progress(run, patience)
    with serving_in_thread(Served(progress.report), port):
        return patience.call(
            lambda: merge(
                stage,
                fingerprint=fingerprint,
                run=run,
                undone=undone,
                began=began,
                progressed=progress.update,
                closed=progress.close,
                patience=patience,
            )
        )
