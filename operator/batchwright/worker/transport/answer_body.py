"""Reading the body of an answer, within the limit of one and the budget of all."""

from typing import Final

import aiohttp
from aiohttp import hdrs

from batchwright.worker.transport.answer_budget import AnswerBudget, Holding
from batchwright.worker.transport.deadlines import Deadline
from batchwright.worker.transport.errors import AnswerTooLarge

FREE_BYTES: Final = 16 * 1024
"""Up to this size an answer costs the budget nothing: in most jobs that is each of them."""

BUFFER_BYTES: Final = 64 * 1024
"""What a connection buffers before its reader takes it. aiohttp stops reading the socket at twice as much."""


class AnswerBodies:
    """Reads bodies of one transport or of several.

    What a body took of the budget is given back when `read` returns. Its caller goes on in the same step of the event
    loop, so before anybody else can make use of the room, the caller has parsed the body and put it away or dropped it,
    as long as it doesn't await something in between.
    """

    def __init__(self, max_bytes: int, budget: AnswerBudget | None = None) -> None:
        """`max_bytes` limits one body, after decompression."""
        self._max_bytes = max_bytes
        self._budget = budget or AnswerBudget()

    async def read(self, response: aiohttp.ClientResponse, deadline: Deadline) -> bytes:
        """The whole body. While it waits for the budget, the deadline stands still: what holds it up is no fault of the
        server's, and ends as the answers before it do, which have deadlines of their own.

        Raises:
            AnswerTooLarge: it is over the limit.
            ConnectionLost: it stopped in its midst, while others waited for what it held.
            aiohttp.ClientError: it broke off or is damaged.
        """
        try:
            length = None if hdrs.CONTENT_ENCODING in response.headers else response.content_length
            if length is not None:
                self._check(length, "")
                if length <= FREE_BYTES:
                    return await response.read()
            with self._budget.holding(response.content) as holding:
                if length is None:
                    return await self._read_in_pieces(response.content, holding, deadline)
                await _take(holding, length, deadline)
                return await response.read()
        except BaseException:
            # The rest of the answer may still be on its way, so the connection is of no more use.
            response.close()
            raise

    async def _read_in_pieces(self, content: aiohttp.StreamReader, holding: Holding, deadline: Deadline) -> bytes:
        """Read a body whose size the headers don't tell: sent in chunks, or compressed."""
        body = bytearray()
        async for piece in content.iter_any():
            body += piece
            self._check(len(body), "or more ")
            if len(body) > FREE_BYTES:
                await _take(holding, len(body) - holding.bytes, deadline)
        return bytes(body)

    def _check(self, size: int, or_more: str) -> None:
        if size > self._max_bytes:
            raise AnswerTooLarge(f"the answer has {size} bytes {or_more}and the limit is {self._max_bytes}")


async def _take(holding: Holding, size: int, deadline: Deadline) -> None:
    if holding.take_at_once(size):
        return
    deadline.stand_still()
    try:
        await holding.wait(size)
    finally:
        deadline.go_on()
