"""The catalogue of models as a file that an administrator may change while the gateway runs.

A ConfigMap is mounted as links behind a link `..data`, which the kubelet swaps: the file behind them is another one
then, so its inode and time tell that it has changed.
"""

import logging
import os
from pathlib import Path
from threading import Lock

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.settings import InvalidSettings, parse_yaml

logger = logging.getLogger(__name__)

Version = tuple[int, int, int, int]
"""Device, inode, time of change in ns and size of the file behind all links."""


class CatalogueFile:
    """The catalogue as the file says now. Threads may share it."""

    def __init__(self, path: Path) -> None:
        """Read it once; a file that isn't there is no catalogue.

        Raises:
            InvalidSettings: the file can't be read, or says something that can't be; each problem by its place.
        """
        self._path = path
        self._lock = Lock()
        self._seen: Version | None = None
        self._catalogue: Catalogue | None = None
        self._complaint = ""
        version, text = self._read(None)
        if version is not None:
            self._catalogue = self._parse(text)
            self._seen = version

    def __call__(self) -> Catalogue | None:
        """The catalogue; None where there is no file.

        A version that can't be used is logged, and the last good one stays: one typing error must not stop every
        tenant's batches.
        """
        with self._lock:
            try:
                version, text = self._read(self._seen)
                if version != self._seen:
                    self._seen = version
                    self._catalogue = None if version is None else self._parse(text)
                    logger.info("the catalogue %s %s", self._path, "is gone" if version is None else "has changed")
                self._complaint = ""
            except InvalidSettings as error:
                self._complain(str(error))
            return self._catalogue

    def _read(self, known: Version | None) -> tuple[Version | None, str]:
        """The file's version, and its text where that isn't the known one; no version where there is no file."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                version = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
                return version, "" if version == known else file.read().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None, ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSettings(f"{self._path} can't be read: {error}") from error

    def _parse(self, text: str) -> Catalogue:
        return parse_yaml(Catalogue, text, str(self._path))

    def _complain(self, message: str) -> None:
        """Once for each problem, not once for each request."""
        if message != self._complaint:
            self._complaint = message
            logger.error("the catalogue stays as it was, its new version can't be used: %s", message)
