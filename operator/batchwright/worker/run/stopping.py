"""Waiting that ends when the worker is about to leave."""

import asyncio
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]
"""Waits so many seconds."""


class Stopping(Exception):  # noqa: N818 - it says what is going on
    """The worker is about to leave: what waited has no outcome yet."""


def sleep_unless(stopping: asyncio.Event) -> Sleep:
    """A sleep that ends with Stopping as soon as the event is set."""

    async def sleep(seconds: float) -> None:
        try:
            # Python 3.11's wait_for may swallow a cancellation that comes together with the event.
            async with asyncio.timeout(seconds):
                await stopping.wait()
        except TimeoutError:
            return
        raise Stopping

    return sleep
