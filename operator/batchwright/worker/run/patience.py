"""Waiting out a store that is away: finished work is held, and written when the store is back."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from batchwright.storage.errors import StorageError
from batchwright.storage.patience import log_pause
from batchwright.worker.run.stopping import Sleep

PATIENCE_SECONDS: Final = 15 * 60.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0

R = TypeVar("R")


async def patiently(call: Callable[[], R], *, patience: float = PATIENCE_SECONDS, sleep: Sleep = asyncio.sleep) -> R:
    """Run a storage call in a thread, again and again while the store is away, for `patience` seconds.

    So it is while mounted credentials are revoked, until the new ones are there or are given up.

    `call` must come to the same end when it is run again after a failure in its midst.

    Raises:
        StorageError: it was refused, or the store stayed away.
    """
    pause = FIRST_PAUSE
    give_up_at = time.monotonic() + patience
    while True:
        try:
            return await asyncio.to_thread(call)
        except StorageError as error:
            if not error.retryable or time.monotonic() + pause > give_up_at:
                raise
            log_pause(error, pause)
        await sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - jitter
        pause = min(pause * 2, LONGEST_PAUSE)
