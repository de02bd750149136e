"""The API keys as they are in the cluster, read again every few seconds."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from batchwright.gateway.identity.api_keys import KeyEntry, decode_entries, find_key
from batchwright.kube.errors import KubernetesError, Refused, Unavailable

logger = logging.getLogger(__name__)

SECRET: Final = "gateway-keys"  # noqa: S105 (a Secret's name)
FRESH_SECONDS: Final = 5.0
"""How long keys are kept: after that a revoked one opens nothing more."""
STALE_SECONDS: Final = 300.0
"""How long the last good ones are used while the API server is away."""
_WAIT_SECONDS: Final = 1.0
"""How long a request waits for another one's reading, where it could do with the last good keys."""


class Entries(Protocol):
    """The Secret (`kube.secrets.SecretObject`)."""

    def read(self) -> dict[str, bytes] | None:
        """Its entries; None where there is none. Raises KubernetesError."""


@dataclass(frozen=True, slots=True)
class _Ring:
    """Keys, and when they were read."""

    entries: Mapping[str, KeyEntry]
    read_at: float


class KeyRing:
    """Finds keys. Safe to use from several threads, of which one at a time reads the Secret."""

    def __init__(self, secret: Entries, *, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds, from any moment on."""
        self._secret = secret
        self._clock = clock
        self._reading = Lock()
        self._ring: _Ring | None = None
        self._failed_at: float | None = None
        self._failure: KubernetesError | None = None
        self._told: object = None

    def find(self, text: str) -> KeyEntry | None:
        """The entry of a key; None where it is unknown. Raises KubernetesError where the keys can't be read."""
        return find_key(self._current().entries, text)

    def check(self) -> None:
        """Raises KubernetesError where the keys can't be read, and the last good ones are too old."""
        self._current()

    def _current(self) -> _Ring:
        ring = self._ring
        if ring is not None and self._age(ring) < FRESH_SECONDS:
            return ring
        # Whoever has keys that may still be used waits for the one that reads for a moment only: a server that hangs
        # must not hold all requests.
        if not self._reading.acquire(timeout=_WAIT_SECONDS if self._usable(ring) else -1):
            return self._last_good()
        try:
            return self._renewed()
        finally:
            self._reading.release()

    def _renewed(self) -> _Ring:
        """With the lock held: what another thread read meanwhile, or what is read now."""
        ring, now = self._ring, self._clock()
        if ring is not None and self._age(ring) < FRESH_SECONDS:
            return ring
        if self._failed_at is not None and now - self._failed_at < FRESH_SECONDS:
            return self._last_good()
        try:
            found = self._secret.read()
        except KubernetesError as error:
            self._failed_at, self._failure = self._clock(), error
            self._tell_failure(error)
            return self._last_good()
        self._failed_at = self._failure = None
        # Dated before the request: it says how old they may be.
        self._ring = _Ring(self._decoded(found), now)
        return self._ring

    def _last_good(self) -> _Ring:
        ring = self._ring
        if ring is not None and self._usable(ring):
            return ring
        raise self._failure or Unavailable(f"the Secret {self._secret} has not been read yet")

    def _usable(self, ring: _Ring | None) -> bool:
        return ring is not None and self._age(ring) < STALE_SECONDS

    def _age(self, ring: _Ring) -> float:
        return self._clock() - ring.read_at

    def _decoded(self, found: dict[str, bytes] | None) -> Mapping[str, KeyEntry]:
        if found is None:
            self._tell(
                "missing",
                f"the Secret {self._secret} is not there: no API key is known. Make one with"
                " `batchwright-gateway keys create`",
            )
            return {}
        entries, damaged = decode_entries(found)
        if damaged:
            listed = ", ".join(damaged)
            self._tell(
                tuple(damaged),
                f"the Secret {self._secret} has entries that are no API keys, which are ignored: {listed}. Revoke them"
                " with `batchwright-gateway keys revoke` and make new ones",
            )
        else:
            self._told = None
        return entries

    def _tell_failure(self, error: KubernetesError) -> None:
        remedy = "" if not isinstance(error, Refused) else ". The gateway's Role must allow `get` on this Secret"
        self._tell(str(error), f"the Secret {self._secret} can't be read: {error}{remedy}")

    def _tell(self, about: object, message: str) -> None:
        """Log a state once, not every few seconds."""
        if about != self._told:
            logger.warning("%s", message)
            self._told = about
