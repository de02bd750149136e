"""Writing one S3 object in parts whose bytes are at hand: several at once, bounded in memory, aborted when anything
fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from batchwright.storage.errors import UploadMissing
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectRange, Progress
from batchwright.storage.s3_multipart import Multipart, Target

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

    from batchwright.storage.s3_client import S3Clients

PARTS_AT_ONCE = 8
PARTS_IN_MEMORY = 2


@dataclass(frozen=True, slots=True)
class SentStep:
    """A part whose bytes are loaded when its turn comes."""

    size: int
    load: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class CopiedStep:
    """A part that the store copies by itself."""

    source: ObjectRange
    source_uri: str

    @property
    def size(self) -> int:
        return self.source.size


Step = SentStep | CopiedStep


class ForwardProgress:
    """Progress that never counts a byte twice, although an upload may have to start again."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = 0
        self._reported = 0

    def add(self, size: int) -> None:
        self._done += size
        if self._progress and self._done > self._reported:
            self._progress(self._done - self._reported)
            self._reported = self._done

    def start_again(self) -> None:
        self._done = 0


class SteppedUpload:
    """One upload, as a context: it is begun on entry, and aborted on exit unless it was completed."""

    def __init__(self, clients: S3Clients, target: Target, *, patience: Patience) -> None:
        self._clients = clients
        self._target = target
        self._patience = patience
        self._failed = threading.Event()
        self._memory = threading.BoundedSemaphore(PARTS_IN_MEMORY)

    def __enter__(self) -> SteppedUpload:
        self._multipart = Multipart.begin(self._clients, self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._multipart.abort()

    def run(self, steps: Sequence[Step], progress: Progress | None = None) -> None:
        """Perform the steps as the parts 1, 2, 3… and complete the upload. The first error ends it."""
        parts: list[CompletedPartTypeDef | None] = [None] * len(steps)
        with ThreadPoolExecutor(PARTS_AT_ONCE, "batchwright-upload") as pool:
            futures = {pool.submit(self._patiently, number, step): number for number, step in enumerate(steps, 1)}
            try:
                for future in as_completed(futures):
                    number = futures[future]
                    parts[number - 1] = future.result()
                    if progress:
                        progress(steps[number - 1].size)
            except BaseException:
                self._failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        finished = [part for part in parts if part is not None]
        self._patience.call(lambda: self._multipart.complete(finished), unless=UploadMissing)

    def _patiently(self, number: int, step: Step) -> CompletedPartTypeDef:
        return self._patience.call(lambda: self._perform(number, step), stopped=self._failed, unless=UploadMissing)

    def _perform(self, number: int, step: Step) -> CompletedPartTypeDef:
        if isinstance(step, CopiedStep):
            return self._multipart.copy(number, step.source, step.source_uri)
        with self._memory:
            return self._multipart.send(number, step.load())
