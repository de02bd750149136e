"""The model server's API key, read from a mounted file that may change while the worker runs."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

RECHECK_SECONDS: Final = 1.0


class ApiKey:
    """Gives the header of each request. A rotated key is taken up within a second of the file's change."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._headers: Mapping[str, str] = {}
        self._checked_at: float | None = None

    def headers(self) -> Mapping[str, str]:
        """The Authorization header, or none where no key was given.

        Raises:
            OSError: the file can't be read.
        """
        if self._path is None:
            return self._headers
        now = self._clock()
        if self._checked_at is None or now - self._checked_at >= RECHECK_SECONDS:
            self._headers = {"Authorization": f"Bearer {self._path.read_text().strip()}"}
            self._checked_at = now
        return self._headers
