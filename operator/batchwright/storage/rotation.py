"""Telling credentials that are being rotated from credentials that are wrong."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

ROTATION_SECONDS: Final = 180.0
"""How long a Secret may take from its change to the files of a pod that runs, with some margin.

That is the kubelet's sync period and the delay of its cache (Kubernetes, "Secrets", "Mounted Secrets are updated
automatically"): a minute that is lengthened by up to a half at random, and up to a minute of its cache.
"""


class Rotation:
    """Whether a refusal of credentials may pass: they were accepted before, and are not refused for long.

    May be shared by threads. Requests that were signed with the old and with the new keys may be answered in any order.
    """

    def __init__(self, seconds: float = ROTATION_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """seconds: how long credentials that were accepted may be refused; 0 makes each refusal the last word."""
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._worked = False
        self._refused_at: float | None = None

    def accepted(self) -> None:
        """The store did what was asked of it with these credentials."""
        with self._lock:
            if self._refused_at is not None:
                logger.info("the store accepts the credentials again")
            self._worked, self._refused_at = True, None

    def refused(self) -> bool:
        """The store refused the credentials. Gives whether that may pass."""
        with self._lock:
            if not self._worked or not self._seconds:
                return False
            now = self._clock()
            if self._refused_at is None:
                self._refused_at = now
                logger.warning(
                    "the store refuses credentials that it accepted before: runs and merges wait up to %.0f s for the"
                    " files of a rotated Secret",
                    self._seconds,
                )
            return now - self._refused_at < self._seconds
