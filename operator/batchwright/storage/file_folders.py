"""Folders under a root that are reached name by name, so that no symbolic link is ever followed on the way.

Every call names its file relative to a folder that is open. So it makes no difference what somebody else who can write
to the volume puts in place of a folder meanwhile: at worst the call fails.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""To go through a folder needs no right to read it; macOS has no O_PATH and asks for it."""

_READABLE_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""What was a regular file a moment ago may be a pipe by now, of which the opening would wait for a writer."""

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenFolder:
    """An open folder, and with it those above it up to the root. Names are those of files in it.

    Raises OSError; where a name on the way is a symbolic link, one of ENOTDIR or ELOOP.
    """

    def __init__(
        self, root: Path, names: Sequence[str] = (), *, make: bool = False, above: OpenFolder | None = None
    ) -> None:
        """root: a real path, or a name in the folder `above`
        names: of the folders that lead from it to this one
        make: make what is missing of those
        """
        self._names = tuple(names)
        self._chain = [os.open(root, _FOLDER, dir_fd=above._descriptor if above else None)]
        try:
            for name in self._names:
                self._chain.append(_descend(self._chain[-1], name, make))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let it go. Does nothing the second time."""
        while self._chain:
            os.close(self._chain.pop())

    @property
    def _descriptor(self) -> int:
        return self._chain[-1]

    def status(self, name: str) -> os.stat_result:
        """Of a link its own."""
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str, *, writable: bool = False) -> IO[bytes]:
        """For reading; with `writable` for writing too, where that is allowed. The caller finds out whether it is a
        regular file.
        """
        if writable:
            with suppress(PermissionError):
                return os.fdopen(os.open(name, _FILE | os.O_RDWR, dir_fd=self._descriptor), "r+b", buffering=0)
        return os.fdopen(os.open(name, _FILE, dir_fd=self._descriptor), "rb", buffering=0)

    def create(self, name: str) -> IO[bytes]:
        """A new file, for reading and writing. Raises FileExistsError, of a link too."""
        return os.fdopen(os.open(name, _NEW_FILE, 0o666, dir_fd=self._descriptor), "w+b", buffering=0)

    def rename(self, name: str, target: str) -> None:
        """Within the folder, over what stands there."""
        os.replace(name, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def link(self, name: str, target: str) -> None:
        """Give the file a second name. Raises FileExistsError."""
        # By its default, link would follow a link: to the file of somebody else.
        os.link(name, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        """Remove the file, or a link itself."""
        os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Bring new names to disk, where the file system can do that to a folder."""
        with suppress(OSError):
            descriptor = os.open(".", _READABLE_FOLDER, dir_fd=self._descriptor)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def prune(self) -> None:
        """Remove this folder and those above it that have become empty, but not the root."""
        with suppress(OSError):  # the first one that is not empty
            for name, above in zip(reversed(self._names), reversed(self._chain[:-1]), strict=True):
                os.rmdir(name, dir_fd=above)

    def scan(self) -> list[tuple[str, bool]]:
        """The names in it, and of each whether it is a folder's; links are none."""
        descriptor = os.open(".", _READABLE_FOLDER, dir_fd=self._descriptor)
        try:
            with os.scandir(descriptor) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(descriptor)

    def folder(self, name: str) -> OpenFolder:
        """A folder in it, for itself."""
        return OpenFolder(Path(name), above=self)


def _descend(descriptor: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=descriptor)
    return os.open(name, _FOLDER, dir_fd=descriptor)
