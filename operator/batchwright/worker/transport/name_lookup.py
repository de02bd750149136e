"""Learning the addresses that a server's name stands for, again and again."""

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Sequence

from batchwright.worker.transport.addresses import Resolver, replica_addresses, says_that_there_are_none
from batchwright.worker.transport.endpoints import Address

logger = logging.getLogger(__name__)


class NameLookup:
    """Looks a name up, one time after the other and never twice at once."""

    def __init__(
        self,
        host: str,
        resolver: Resolver,
        found: Callable[[Sequence[Address]], None],
        *,
        pause: float,
        least_pause: float,
        longest: float,
    ) -> None:
        """`found` gets what each lookup finds; nothing where nobody could be asked.

        Times are in seconds: the pause between two lookups, give or take a fifth; the pause when one is needed soon;
        and how long one may take.
        """
        self._host = host
        self._resolver = resolver
        self._found = found
        self._pause, self._least_pause, self._longest = pause, least_pause, longest
        self._loop = asyncio.get_running_loop()
        self._began = self._next = 0.0
        self._task: asyncio.Task[None] | None = None
        self._proven = self._doubted = self._second_family = False

    def start(self) -> asyncio.Task[None]:
        """The lookup that is under way, or a new one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_up())
        return self._task

    def start_if_due(self) -> None:
        """Begin one whose time has come."""
        if self._loop.time() >= self._next:
            self.start()

    def hurry(self) -> None:
        """Let the next one be due as soon as is decent."""
        self._next = min(self._next, self._began + self._least_pause)

    def prove(self) -> None:
        """Something came from an address that was found."""
        self._proven = True

    def doubt(self) -> None:
        """No connection could be made to an address that was found."""
        self._doubted = True

    async def close(self) -> None:
        """End the one that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _look_up(self) -> None:
        self._began = self._loop.time()
        self._next = self._began + self._pause * random.uniform(0.8, 1.2)  # noqa: S311
        try:
            async with asyncio.timeout(self._longest):
                results = await self._resolver.resolve(self._host, family=socket.AF_UNSPEC)
        except OSError as error:
            if not says_that_there_are_none(error):
                logger.debug("the addresses of %s can't be looked up: %s", self._host, type(error).__name__)
                return
            results = ()
        # A family over which nothing has ever come is given up for the other one.
        self._second_family ^= self._doubted and not self._proven
        self._doubted = False
        self._found(replica_addresses((one["host"] for one in results), second_family=self._second_family))
