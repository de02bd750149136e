"""Writing one file of a volume of which the bytes come one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO

from batchwright.storage.errors import UploadMissing
from batchwright.storage.piecewise import PiecewiseUpload
from batchwright.storage.protocol import ObjectInfo


class FileUpload(PiecewiseUpload):
    """The bytes go to a temporary file beside the target, which stays open to the end."""

    def __init__(
        self,
        uri: str,
        opened: AbstractContextManager[tuple[Path, Path, IO[bytes]]],
        publish: Callable[[IO[bytes], Path, Path], ObjectInfo],
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(uri)
        self._translated = translated
        self._publish_file = publish
        self._stack = ExitStack()
        with translated():
            self._temporary, self._target, self._file = self._stack.enter_context(opened)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._translated():
            while rest:
                rest = rest[self._file.write(rest) :]

    def _publish(self) -> ObjectInfo:
        with self._translated():
            if os.fstat(self._file.fileno()).st_nlink == 0:
                raise UploadMissing("PutObject", self._uri, "the temporary file is gone")
            return self._publish_file(self._file, self._temporary, self._target)

    def _discard(self) -> None:
        self._stack.close()
