"""Credentials from a folder of files, as Kubernetes mounts a Secret, so that a rotated Secret reaches a
running process.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from botocore.credentials import Credentials, ReadOnlyCredentials

from batchwright.storage.errors import MissingCredentials

logger = logging.getLogger(__name__)

ACCESS_KEY = "AWS_ACCESS_KEY_ID"
SECRET_KEY = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 (a file's name)
SESSION_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105 (a file's name)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    version: tuple[object, ...]
    access_key: str
    secret_key: str
    token: str | None


class FileCredentials(Credentials):
    """Credentials that look at their files before every request, and read them again when they have changed.

    Files that cannot be read later on leave the last good credentials in place: a Secret that is being
    replaced must not stop a run.

    Raises MissingCredentials when the folder lacks one of the two keys at the start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._snapshot = _read(folder)
        first = self._snapshot
        super().__init__(first.access_key, first.secret_key, first.token, method="batchwright-files")

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """The credentials as they are now; botocore asks for each request that it signs."""
        with self._lock:
            try:
                if _version(_current(self._folder)) != self._snapshot.version:
                    self._snapshot = _read(self._folder)
                    logger.info("credentials were read again from %s", self._folder)
            except MissingCredentials as error:
                logger.warning("keeping the earlier credentials: %s", error)
            now = self._snapshot
        return ReadOnlyCredentials(now.access_key, now.secret_key, now.token)


def _current(folder: Path) -> Path:
    """The folder that holds one consistent set of files.

    The kubelet swaps the link `..data` when a Secret changes; reading through it would mix the old and the
    new.
    """
    try:
        return (folder / "..data").resolve(strict=True)
    except OSError:
        return folder


def _version(folder: Path) -> tuple[object, ...]:
    version: list[object] = [str(folder)]
    for name in (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN):
        try:
            status = (folder / name).stat()
            version.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            version.append(None)
    return tuple(version)


def _read(folder: Path) -> _Snapshot:
    current = _current(folder)
    version = _version(current)
    access_key, secret_key = (_required(current, name, folder) for name in (ACCESS_KEY, SECRET_KEY))
    token = _text(current / SESSION_TOKEN)
    return _Snapshot(version, access_key, secret_key, token or None)


def _required(current: Path, name: str, folder: Path) -> str:
    text = _text(current / name)
    if text:
        return text
    raise MissingCredentials(
        "read credentials",
        str(folder),
        f"the file {name} is missing, empty or unreadable",
        None,
        f"The Secret needs the keys {ACCESS_KEY} and {SECRET_KEY}.",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
