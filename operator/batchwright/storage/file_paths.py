"""From keys to paths under one root folder, and no further."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from batchwright.storage.errors import AccessDenied, InvalidLocation, NotFound

TEMPORARY_PREFIX = ".batchwright-tmp-"
"""Names of unfinished files. They are no objects; a killed process may leave one behind."""


class RootFolder:
    """A folder that no key leads out of: neither by `..` nor by a symbolic link.

    A link that is put in place between the check and the use is not noticed: whoever can write into the
    volume is trusted not to race against us.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real = Path(os.path.realpath(root))

    def uri(self, key: str) -> str:
        """The literal URI of a key."""
        folder = "" if str(self.root) == "/" else self.root
        return f"file://{folder}/{key}"

    def existing(self, key: str, operation: str) -> tuple[Path, os.stat_result]:
        """The real path of a regular file, and its status.

        Raises InvalidLocation, AccessDenied (it lies outside), NotFound (it is no regular file) and OSError.
        """
        path = Path(os.path.realpath(self._path(key, operation)))
        self._check_inside(path, key, operation)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise NotFound(operation, self.uri(key), "it is not a regular file", None, "Name a file.")
        return path, status

    def writable(self, key: str, operation: str) -> Path:
        """The path to write to or delete; its folder may not exist yet. A link at the path itself is not
        followed.
        """
        path = self._path(key, operation)
        folder = Path(os.path.realpath(path.parent))
        self._check_inside(folder, key, operation)
        return folder / path.name

    def walk(self, prefix: str, start_after: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Keys and statuses of the regular files under a prefix, in the order of the keys' bytes: those that come after
        `start_after`. Neither files nor whole folders before it are looked at.

        Links to files are followed within the root, links to folders are not (they may form a cycle). Names
        that are not UTF-8 cannot be keys and are left out. Raises InvalidLocation, AccessDenied and OSError.
        """
        folder, _, start = prefix.rpartition("/")
        path = Path(os.path.realpath(self._path(folder, "ListObjectsV2") if folder else self._real))
        self._check_inside(path, prefix, "ListObjectsV2")
        if path.is_dir():
            yield from self._walk(path, f"{folder}/" if folder else "", start, start_after.encode())

    def temporaries(self, prefix: str, *, unchanged_since: float) -> list[Path]:
        """Unfinished files in the folder of a prefix and in those below it, last changed before that time (seconds
        since 1970). Raises as `walk` does.
        """
        name = prefix.rpartition("/")[0]
        path = Path(os.path.realpath(self._path(name, "ListObjectsV2") if name else self._real))
        self._check_inside(path, prefix, "ListObjectsV2")
        statuses = ((found, self._regular(found)) for found in path.rglob(f"{TEMPORARY_PREFIX}*"))
        return [found for found, status in statuses if status is not None and status.st_mtime < unchanged_since]

    def _walk(self, folder: Path, base: str, start: str, after: bytes) -> Iterator[tuple[str, os.stat_result]]:
        for name in _sorted_names(folder, start):
            path = folder / name.rstrip("/")
            key = (base + name).encode()
            # The keys in a folder before `after` are so too, unless it is one of them itself.
            if key <= after and not (name.endswith("/") and after.startswith(key)):
                continue
            if name.endswith("/"):
                yield from self._walk(path, base + name, "", after)
            elif (status := self._regular(path)) is not None:
                yield base + name, status

    def _regular(self, path: Path) -> os.stat_result | None:
        try:
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(self._real):
                return None
            status = path.stat()
        except OSError:  # it has vanished, or its link leads nowhere
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _path(self, key: str, operation: str) -> Path:
        segments = key.split("/")
        if any(segment in ("", ".", "..") for segment in segments):
            detail = "a key on a volume has no empty segment and none that is '.' or '..'"
            raise InvalidLocation(operation, self.uri(key), detail)
        if "\0" in key or segments[-1].startswith(TEMPORARY_PREFIX):
            detail = f"a key has no NUL, and its name does not start with {TEMPORARY_PREFIX}"
            raise InvalidLocation(operation, self.uri(key), detail)
        return self._real.joinpath(*segments)

    def _check_inside(self, path: Path, key: str, operation: str) -> None:
        if not path.is_relative_to(self._real):
            detail = f"a symbolic link leads out of {self.root}"
            remedy = "Name the file by its real path."
            raise AccessDenied(operation, self.uri(key), detail, None, remedy)


def _sorted_names(folder: Path, start: str) -> list[str]:
    """The names in a folder that begin with `start`; those of folders get a slash, which also sorts them
    right.
    """
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(start) and not entry.name.startswith(TEMPORARY_PREFIX):
                    names.append(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name)
    except FileNotFoundError:  # it was pruned meanwhile
        return []
    return sorted((name for name in names if _is_unicode(name)), key=str.encode)


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
