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
            await asyncio.wait_for(stopping.wait(), seconds)
        except TimeoutError:
            return
        raise Stopping

    return sleep
