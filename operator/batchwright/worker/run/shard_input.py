"""Reading a shard: a byte range of the input, pinned to the version that was planned."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.batchfile.lines import OversizeLine, is_blank, split_lines
from batchwright.batchfile.plan_record import PlanRecord, Shard
from batchwright.batchfile.request_line import ENVELOPE_BYTES, RequestLine, read_request
from batchwright.storage.errors import NotFound, StorageError
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.failures import StageFailed, final
from batchwright.worker.run.byte_budget import ByteBudget
from batchwright.worker.run.patience import patiently
from batchwright.worker.run.shard_order import sending_order
from batchwright.worker.run.stopping import Sleep

CHUNK_BYTES: Final = 1 << 20
ORDERED_LINES: Final = 20_000
ORDERED_SHARE: Final = 1 / 2
"""So many lines of a shard, and of so many bytes as this share of the budget, are read at a time, so that they can be
put in order before they are sent."""
LEAST_LINES: Final = 8
"""Lines of which fewer would be read at a time are so large that order brings nothing, and sent as they come."""
_Lines = list[bytes | OversizeLine]


class ShardLine(Struct, frozen=True):
    """One request of a shard. `position` counts the shard's requests from 0, `number` the file's lines from 1."""

    position: int
    number: int
    line: bytes
    request: RequestLine
    affinity: int | None = None
    """Equal for lines whose prompts begin alike: see `shard_order`."""


@dataclass(frozen=True, slots=True)
class ShardInput:
    """Reads shards of one planned input."""

    store: ObjectStore
    key: str
    plan: PlanRecord
    max_body_bytes: int
    sleep: Sleep = asyncio.sleep
    """Waits between tries while the store is away."""

    async def lines(self, shard: Shard, budget: ByteBudget) -> AsyncGenerator[ShardLine]:
        """The requests of a shard in the order in which to send them. A large shard is put in order window by window.

        Each holds the length of its line of `budget`, which the receiver gives back. A window is held from before it is
        read.

        Raises:
            ObjectChanged: the object is not the one that was planned.
            StageFailed: its lines are not those that were planned.
            StorageError: it can't be read.
        """
        most, rest = int(ORDERED_SHARE * budget.limit), shard.end - shard.start
        in_windows = rest > most
        async with contextlib.aclosing(self._read_lines(shard)) as lines:
            following = await anext(lines, None)
            while following is not None:
                few = in_windows and LEAST_LINES * len(following.line) > most
                held = len(following.line) if few else min(most, rest)
                await budget.acquire(held)
                try:
                    window, following = await _window(lines, following, held)
                    rest -= sum(len(line.line) for line in window)
                    last_first = await _last_first(window)
                    del window  # what is sent leaves the memory
                    while last_first:
                        line = last_first.pop()
                        held -= len(line.line)
                        yield line
                finally:
                    budget.release(held)

    def in_file_order(self, shard: Shard, patience: Patience, stopped: threading.Event) -> Iterator[ShardLine]:
        """The requests in the file's order, for a thread. When `stopped` is set, a store that is away isn't waited for.

        Raises what `lines` does.
        """
        groups, requests = self._groups(shard), _Requests(self, shard)
        while True:
            with _told_when_gone():
                group = patience.call(groups.next, stopped=stopped)
            if group is None:
                break
            yield from requests.of(group)
        requests.end()

    async def _read_lines(self, shard: Shard) -> AsyncGenerator[ShardLine]:
        """The requests in the file's order. Memory is one chunk and one line, whatever the shard's size."""
        groups, requests = self._groups(shard), _Requests(self, shard)
        while True:
            with _told_when_gone():
                group = await patiently(groups.next, sleep=self.sleep)
            if group is None:
                break
            for line in requests.of(group):
                yield line
        requests.end()

    def _groups(self, shard: Shard) -> "_LineGroups":
        return _LineGroups(shard.start, lambda start: self._open(start, shard.end))

    def _open(self, start: int, end: int) -> Iterator[_Lines]:
        chunks = self.store.stream(
            self.key, start=start, end=end, if_match=self.plan.input.etag, chunk_size=CHUNK_BYTES
        )
        return split_lines(chunks, self.max_body_bytes + ENVELOPE_BYTES)

    def read(self, line: bytes) -> RequestLine:
        """The request of a line.

        Raises:
            StageFailed: it has none, so the file is not the one that was planned.
        """
        try:
            return read_request(line)
        except ValueError:
            raise self.changed() from None

    def changed(self) -> StageFailed:
        """The failure that the file is not the one that was planned."""
        return final(
            ExitCode.INPUT_CHANGED,
            Reason.INPUT_CHANGED,
            f"{self.plan.input.uri} is not the file that was planned. Create the BatchJob anew for the new content.",
        )


class _Requests:
    """The requests of a shard's lines, which come in groups, with their positions and numbers."""

    def __init__(self, source: ShardInput, shard: Shard) -> None:
        self._source = source
        self._shard = shard
        self._position, self._number = 0, shard.first_line

    def of(self, group: _Lines) -> Iterator[ShardLine]:
        """Those of the next lines."""
        for line in group:
            if isinstance(line, OversizeLine):
                raise self._source.changed()
            if not is_blank(line):
                yield ShardLine(self._position, self._number, line.removesuffix(b"\r"), self._source.read(line))
                self._position += 1
            self._number += 1

    def end(self) -> None:
        """There are no more."""
        if self._position != self._shard.lines:
            raise self._source.changed()


@contextlib.contextmanager
def _told_when_gone() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        message = f"{error} Put the same file back, or create the BatchJob anew."
        raise final(ExitCode.INPUT_CHANGED, Reason.INPUT_NOT_FOUND, message) from error


async def _window(
    lines: AsyncGenerator[ShardLine], first: ShardLine, size: int
) -> tuple[list[ShardLine], ShardLine | None]:
    """Lines of so many bytes from `first` on, and the line that follows them."""
    window, size = [first], size - len(first.line)
    async for line in lines:
        size -= len(line.line)
        if size < 0 or len(window) == ORDERED_LINES:
            return window, line
        window.append(line)
    return window, None


async def _last_first(window: list[ShardLine]) -> list[ShardLine]:
    """The lines in the order in which to send them, the last one first."""
    if len(window) == 1:
        return window
    turns = await asyncio.to_thread(sending_order, [line.request.body for line in window])
    return [replace(window[turn.line], affinity=turn.affinity) for turn in reversed(turns)]


class _LineGroups:
    """Groups of lines from a byte on. A call after one that failed reads on where the last good one ended."""

    def __init__(self, start: int, read: Callable[[int], Iterator[_Lines]]) -> None:
        self._position = start
        self._read = read
        self._groups: Iterator[_Lines] | None = None

    def next(self) -> _Lines | None:
        """The next lines, None at the end."""
        if self._groups is None:
            self._groups = self._read(self._position)
        try:
            group = next(self._groups, None)
        except StorageError:
            self._groups = None
            raise
        for line in group or ():
            self._position += 1 + (line.length if isinstance(line, OversizeLine) else len(line))
        return group
