"""The model server's API key, read from a mounted file that may change while the worker runs."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.worker.failures import final

logger = logging.getLogger(__name__)

RECHECK_SECONDS: Final = 1.0


class ApiKey:
    """Gives the header of each request. A rotated key is taken up within a second of the file's change.

    A file that can't be used later on leaves the last good key in place: a Secret that is being replaced must not stop
    a run.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._headers: Mapping[str, str] = {}
        self._checked_at: float | None = None

    def headers(self) -> Mapping[str, str]:
        """The Authorization header, or none where no key was given.

        Raises:
            StageFailed: the first reading finds no key.
        """
        if self._path is None:
            return self._headers
        now = self._clock()
        if self._checked_at is None or now - self._checked_at >= RECHECK_SECONDS:
            self._headers = self._read(self._path)
            self._checked_at = now
        return self._headers

    def reread(self) -> Mapping[str, str]:
        """The header by what the file holds at this moment: for when the server has just refused it.

        Raises:
            StageFailed: as `headers`.
        """
        self._checked_at = None
        return self.headers()

    def _read(self, path: Path) -> Mapping[str, str]:
        try:
            return {"Authorization": f"Bearer {_key(path)}"}
        except (OSError, ValueError) as error:
            if self._headers:
                logger.warning("keeping the earlier API key: %s", error)
                return self._headers
            message = f"The API key of the model server can't be used: {error}. Correct spec.server.apiKeySecretRef."
            raise final(ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC, message) from None


def _key(path: Path) -> str:
    key = path.read_bytes().strip()
    if not key:
        raise ValueError(f"{path} is empty")
    text = key.decode("ascii", errors="ignore")
    if len(text) != len(key) or not text.isprintable():
        raise ValueError(f"{path} holds characters that no HTTP header can carry")
    return text
