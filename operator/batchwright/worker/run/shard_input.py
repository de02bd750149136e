"""Reading a shard: a byte range of the input, pinned to the version that was planned."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.batchfile.lines import OversizeLine, is_blank, split_lines
from batchwright.batchfile.plan_record import PlanRecord, Shard
from batchwright.batchfile.request_line import ENVELOPE_BYTES, RequestLine, read_request
from batchwright.storage.errors import NotFound
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.failures import StageFailed, final

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardLine:
    """One request of a shard. `position` counts the shard's requests from 0, `number` the file's lines from 1."""

    position: int
    number: int
    line: bytes
    request: RequestLine


@dataclass(frozen=True, slots=True)
class ShardInput:
    """Reads shards of one planned input."""

    store: ObjectStore
    key: str
    plan: PlanRecord
    max_body_bytes: int

    async def lines(self, shard: Shard) -> AsyncIterator[ShardLine]:
        """The requests of a shard, in order. Memory is one chunk, whatever the shard's size.

        Raises:
            ObjectChanged: the object is not the one that was planned.
            StageFailed: its lines are not those that were planned.
            StorageError: it can't be read.
        """
        chunks = self.store.stream(
            self.key, start=shard.start, end=shard.end, if_match=self.plan.input.etag, chunk_size=CHUNK_BYTES
        )
        groups = split_lines(chunks, self.max_body_bytes + ENVELOPE_BYTES)
        position, number = 0, shard.first_line
        while (group := await self._next(groups)) is not None:
            for line in group:
                if isinstance(line, OversizeLine):
                    raise self._changed()
                if not is_blank(line):
                    yield ShardLine(position, number, line.removesuffix(b"\r"), self._read(line))
                    position += 1
                number += 1
        if position != shard.lines:
            raise self._changed()

    async def _next(self, groups: Iterator[list[bytes | OversizeLine]]) -> list[bytes | OversizeLine] | None:
        try:
            return await asyncio.to_thread(next, groups, None)
        except NotFound as error:
            message = f"{error} Put the same file back, or create the BatchJob anew."
            raise final(ExitCode.INPUT_CHANGED, Reason.INPUT_NOT_FOUND, message) from error

    def _read(self, line: bytes) -> RequestLine:
        try:
            return read_request(line)
        except ValueError:
            raise self._changed() from None

    def _changed(self) -> StageFailed:
        return final(
            ExitCode.INPUT_CHANGED,
            Reason.INPUT_CHANGED,
            f"{self.plan.input.uri} is not the file that was planned. Create the BatchJob anew for the new content.",
        )
