"""From keys to files under one root folder, and no further."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, TypeVar

from batchwright.storage.errors import AccessDenied, InvalidLocation, NotFound, StorageError
from batchwright.storage.file_folders import OpenFolder

TEMPORARY_PREFIX = ".batchwright-tmp-"
"""Names of unfinished files. They are no objects; a killed process may leave one behind."""

HIDDEN = (TEMPORARY_PREFIX, ".nfs")
"""What begins so is never listed. NFS calls a file `.nfs…` that was replaced while somebody has it open, until it is
closed.
"""

MAX_RACES = 50
"""How often a way is gone again that was changed meanwhile, or a folder made that was pruned."""

MAX_DEPTH = 100
"""How many names a key may have. What lies deeper is no object: a folder is held open for each name on the way."""

_CHANGED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What may come of a name on the way that is no longer what it was when the way was found."""

Names = tuple[str, ...]
R = TypeVar("R")


class RootFolder:
    """A folder that no key leads out of: neither by `..` nor by a symbolic link, whoever may change the links and
    folders in it meanwhile.

    Links are followed once, to find out where a key leads to; that is checked, and then gone to without following
    any. The folders above the root are taken to be in the hands of people who are trusted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real = Path(os.path.realpath(root))

    def uri(self, key: str) -> str:
        """The literal URI of a key."""
        folder = "" if str(self.root) == "/" else self.root
        return f"file://{folder}/{key}"

    def status(self, key: str, operation: str) -> os.stat_result:
        """Of the regular file that a key leads to.

        Raises InvalidLocation, AccessDenied (it lies outside), NotFound (it is no regular file) and OSError.
        """

        def look(names: Names) -> os.stat_result:
            with closing(OpenFolder(self._real, names[:-1])) as folder:
                return self._regular(folder.status(names[-1]), key, operation)

        return self._reach(key, operation, look)

    def open(self, key: str, operation: str, *, writable: bool = False) -> IO[bytes]:
        """The regular file that a key leads to, for reading. Raises as `status` does.

        writable: for writing too, where that is allowed; NFS locks no other file
        """

        def open_(names: Names) -> IO[bytes]:
            with closing(OpenFolder(self._real, names[:-1])) as folder:
                self._regular(folder.status(names[-1]), key, operation)
                return folder.open(names[-1], writable=writable)

        file = self._reach(key, operation, open_)
        try:
            self._regular(os.fstat(file.fileno()), key, operation)
        except BaseException:
            file.close()
            raise
        return file

    def create(self, key: str, operation: str, name: str) -> tuple[OpenFolder, IO[bytes]]:
        """A new file in the folder of a key, and that folder. A link at the key itself plays no part.

        Raises InvalidLocation, AccessDenied (the folder lies outside) and OSError.
        """
        for _ in range(MAX_RACES):
            names = self._folder_of(key, operation)
            self._real.mkdir(parents=True, exist_ok=True)
            try:
                return self._create(names, name)
            except FileNotFoundError:
                continue  # it was pruned as empty
            except OSError as error:
                if error.errno not in _CHANGED or self._folder_of(key, operation) == names:
                    raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)

    def _create(self, names: Names, name: str) -> tuple[OpenFolder, IO[bytes]]:
        folder = OpenFolder(self._real, names, make=True)
        try:
            return folder, folder.create(name)
        except BaseException:
            folder.close()
            raise

    def delete(self, key: str, operation: str) -> None:
        """Remove what stands at a key, be it a link, and the folders that have become empty: in an object store there
        are none. Raises as `create` does.
        """
        name = _last(key)

        def unlink(names: Names) -> None:
            with closing(OpenFolder(self._real, names)) as folder:
                folder.unlink(name)
                folder.prune()

        self._follow(lambda: self._folder_of(key, operation), unlink)

    def walk(self, prefix: str, start_after: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Keys and statuses of the regular files under a prefix, in the order of the keys' bytes: those that come after
        `start_after`. Neither files nor whole folders before it are looked at.

        Links to files are followed within the root, links to folders are not (they may form a cycle). Names
        that are not UTF-8 cannot be keys and are left out. Raises InvalidLocation, AccessDenied and OSError.
        """
        folder = self._listable(prefix)
        if folder is None:
            return
        base = prefix[: prefix.rfind("/") + 1]
        with closing(folder):
            yield from self._walk(folder, base, prefix[len(base) :], start_after.encode())

    def _walk(self, folder: OpenFolder, base: str, start: str, after: bytes) -> Iterator[tuple[str, os.stat_result]]:
        for name in _sorted_names(folder, start):
            key = (base + name).encode()
            # The keys in a folder before `after` are so too, unless it is one of them itself.
            if key <= after and not (name.endswith("/") and after.startswith(key)):
                continue
            if not name.endswith("/"):
                status = self._listed(folder, name, base + name)
                if status is not None:
                    yield base + name, status
            elif key.count(b"/") < MAX_DEPTH and (inner := _inner(folder, name.rstrip("/"))) is not None:
                with closing(inner):
                    yield from self._walk(inner, base + name, "", after)

    def _listed(self, folder: OpenFolder, name: str, key: str) -> os.stat_result | None:
        try:
            status = folder.status(name)
            if stat.S_ISLNK(status.st_mode):
                return self.status(key, "ListObjectsV2")
        except (OSError, StorageError):  # it has vanished, or is a link that leads nowhere or out of the root
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def remove_temporaries(self, prefix: str, *, unchanged_since: float) -> list[str]:
        """Remove unfinished files in the folder of a prefix and in those below it that were last changed before that
        time (seconds since 1970). Gives their names, for a log. Raises as `walk` does.
        """
        folder = self._listable(prefix)
        if folder is None:
            return []
        with closing(folder):
            return list(_remove_temporaries(folder, unchanged_since))

    def _listable(self, prefix: str) -> OpenFolder | None:
        operation = "ListObjectsV2"
        folder = prefix.rpartition("/")[0]
        names = self._names(self._path(folder, operation) if folder else self._real, prefix, operation)
        try:
            return OpenFolder(self._real, names)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _reach(self, key: str, operation: str, act: Callable[[Names], R]) -> R:
        return self._follow(lambda: self._file_of(key, operation), act)

    def _follow(self, find: Callable[[], Names], act: Callable[[Names], R]) -> R:
        """Act on the way that was found. If it can't be gone any more, and another one is found now: on that."""
        names = find()
        for _ in range(MAX_RACES):
            try:
                return act(names)
            except OSError as error:
                before, names = names, find()
                if error.errno not in _CHANGED or names == before:
                    raise
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _file_of(self, key: str, operation: str) -> Names:
        """The names that lead from the root to the file that a key leads to."""
        names = self._names(self._path(key, operation), key, operation)
        if not names:
            raise self._no_file(key, operation)
        return names

    def _folder_of(self, key: str, operation: str) -> Names:
        """The names that lead from the root to the folder of a key; it may not exist yet."""
        return self._names(self._path(key, operation).parent, key, operation)

    def _names(self, path: Path, key: str, operation: str) -> Names:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._real):
            detail = f"a symbolic link leads out of {self.root}"
            remedy = "Name the file by its real path."
            raise AccessDenied(operation, self.uri(key), detail, None, remedy)
        return real.relative_to(self._real).parts

    def _path(self, key: str, operation: str) -> Path:
        segments = key.split("/")
        if any(segment in ("", ".", "..") for segment in segments):
            detail = "a key on a volume has no empty segment and none that is '.' or '..'"
            raise InvalidLocation(operation, self.uri(key), detail)
        if "\0" in key or segments[-1].startswith(TEMPORARY_PREFIX):
            detail = f"a key has no NUL, and its name does not start with {TEMPORARY_PREFIX}"
            raise InvalidLocation(operation, self.uri(key), detail)
        if len(segments) > MAX_DEPTH:
            detail = f"a key on a volume has at most {MAX_DEPTH} names between its slashes"
            raise InvalidLocation(operation, self.uri(key), detail)
        return self._real.joinpath(*segments)

    def _regular(self, status: os.stat_result, key: str, operation: str) -> os.stat_result:
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(status.st_mode):
            raise self._no_file(key, operation)
        return status

    def _no_file(self, key: str, operation: str) -> NotFound:
        return NotFound(operation, self.uri(key), "it is not a regular file", None, "Name a file.")


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _inner(folder: OpenFolder, name: str) -> OpenFolder | None:
    """A folder in the folder, unless it was pruned or replaced meanwhile."""
    try:
        return folder.folder(name)
    except OSError as error:
        if error.errno not in _CHANGED:
            raise
        return None


def _remove_temporaries(folder: OpenFolder, unchanged_since: float, depth: int = 1) -> Iterator[str]:
    for name, is_folder in _names_in(folder):
        if is_folder:
            inner = _inner(folder, name) if depth < MAX_DEPTH else None
            if inner is not None:
                with closing(inner):
                    yield from _remove_temporaries(inner, unchanged_since, depth + 1)
        elif name.startswith(TEMPORARY_PREFIX) and _is_unfinished(folder, name, unchanged_since):
            with suppress(FileNotFoundError):  # another one was quicker, or its writer has finished
                folder.unlink(name)
                yield name


def _is_unfinished(folder: OpenFolder, name: str, unchanged_since: float) -> bool:
    try:
        status = folder.status(name)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_mtime < unchanged_since


def _sorted_names(folder: OpenFolder, start: str) -> list[str]:
    """The names in a folder that begin with `start`; those of folders get a slash, which also sorts them
    right.
    """
    names = [
        f"{name}/" if is_folder else name
        for name, is_folder in _names_in(folder)
        if name.startswith(start) and not name.startswith(HIDDEN) and _is_unicode(name)
    ]
    return sorted(names, key=str.encode)


def _names_in(folder: OpenFolder) -> list[tuple[str, bool]]:
    try:
        return folder.scan()
    except FileNotFoundError:  # it was pruned meanwhile
        return []


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
