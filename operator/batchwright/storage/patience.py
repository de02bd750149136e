"""Waiting out a store that is away, where the work is long and nothing else is to be done meanwhile."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from batchwright.storage.errors import CredentialsRevoked, StorageError

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds

R = TypeVar("R")


def log_pause(error: StorageError, pause: float) -> None:
    """Say that a call is made again in about `pause` seconds. That credentials are waited for was said once for all."""
    level = logging.DEBUG if isinstance(error, CredentialsRevoked) else logging.WARNING
    logger.log(level, "storage is away, trying again in about %.0f s: %s", pause, error)


class Patience:
    """Makes calls again while the store is away, until nothing got through to it for a time.

    Credentials that a store no longer accepts count as one that is away, for as long as they are CredentialsRevoked.

    May be shared by threads: a call that gets through proves the store's health for all of them.
    """

    def __init__(self, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """seconds: how long the store may be away; 0 makes every call once."""
        self._seconds = seconds
        self._clock = clock
        self._got_through_at = clock()
        self.failure: StorageError | None = None
        """What is being waited out by now."""

    def call(
        self,
        call: Callable[[], R],
        *,
        stopped: threading.Event | None = None,
        unless: type[StorageError] | tuple[type[StorageError], ...] = (),
    ) -> R:
        """The result of a call that may be made again after it has failed in its midst.

        stopped: when set, a call that fails is not made again, and no pause outlasts it
        unless: errors that are raised at once although they may pass, since the call alone can't mend them

        Raises what the call raises, once that can't pass or the patience is at its end.
        """
        stopped = stopped or threading.Event()
        pause = FIRST_PAUSE
        while True:
            try:
                result = call()
            except StorageError as error:
                last_chance = self._got_through_at + self._seconds
                if not error.retryable or isinstance(error, unless) or self._clock() + pause > last_chance:
                    raise
                self.failure = error
                log_pause(error, pause)
                if stopped.wait(pause * random.uniform(0.5, 1)):  # noqa: S311 (jitter)
                    raise
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._got_through_at = self._clock()
                self.failure = None
                return result
