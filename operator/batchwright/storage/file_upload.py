"""Writing one file of a volume of which the bytes come one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from batchwright.storage.file_unfinished import UnfinishedFile
from batchwright.storage.piecewise import PiecewiseUpload
from batchwright.storage.protocol import ObjectInfo


class FileUpload(PiecewiseUpload):
    """The bytes go to a temporary file beside the target, which stays open to the end."""

    def __init__(
        self,
        uri: str,
        file: UnfinishedFile,
        publish: Callable[[UnfinishedFile], ObjectInfo],
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """publish: makes the object of the file
        translated: turns what the system raises into errors of this package
        """
        super().__init__(uri)
        self._file = file
        self._made = publish
        self._translated = translated

    def _append(self, data: bytes) -> None:
        with self._translated():
            self._file.write(data)

    def _publish(self) -> ObjectInfo:
        with self._translated():
            return self._made(self._file)

    def _discard(self) -> None:
        self._file.close()
