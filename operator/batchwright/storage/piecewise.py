"""What all uploads of pieces have in common: who may call what, and when one is over."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from batchwright.storage.protocol import ObjectInfo


class PiecewiseUpload(ABC):
    """See `protocol.Upload`. What is particular to a kind of store is in the three abstract methods, which are called
    by one thread at a time and raise StorageErrors alone.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._lock = threading.Lock()
        self._over = False
        self._written: ObjectInfo | None = None

    def add(self, data: bytes) -> None:
        with self._lock, self._working():
            self._append(data)

    def commit(self) -> ObjectInfo:
        with self._lock:
            if self._written is None:
                with self._working():
                    self._written = self._publish()
                self._end()
            return self._written

    def abort(self) -> None:
        with self._lock:
            self._end()

    @contextmanager
    def _working(self) -> Iterator[None]:
        if self._over:
            raise ValueError(f"the upload of {self._uri} is over")
        try:
            yield
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._discard()

    @abstractmethod
    def _append(self, data: bytes) -> None:
        """Take the bytes."""

    @abstractmethod
    def _publish(self) -> ObjectInfo:
        """Make the object, and see that it is whole."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove what is no object. Called once, after a publication too; raises nothing."""
