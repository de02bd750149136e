"""One upload's bytes on their way into the storage: what threads do while the event loop reads the next ones."""

import threading
from datetime import timedelta
from typing import Final

from batchwright.gateway.context import Gateway
from batchwright.gateway.files.deletion import drop_unanswered
from batchwright.gateway.files.inspection import Findings, Inspection, model_of
from batchwright.gateway.ids import new_file_id
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.file_record import BATCH, FileRecord
from batchwright.storage.protocol import ObjectInfo, Upload

LONGEST_FIRST_LINE: Final = 11 << 20
"""Bytes: a request body of 10 MiB, and what is around it. The model is looked for in no longer one."""

_one_long_line = threading.Lock()
"""Long first lines are read one at a time, so that many uploads don't hold many of them."""


class GivenUp(Exception):  # noqa: N818
    """The upload was aborted meanwhile."""


class Intake:
    """Takes an upload. Methods block; they may be called by several threads, one of which works at a time."""

    def __init__(self, gateway: Gateway, principal: Principal, namespace: str) -> None:
        self._gateway = gateway
        self._user = principal.user
        self._folder = gateway.tenant(namespace)
        self._created_at = gateway.clock()
        self._id = new_file_id(self._created_at)
        self._inspection = Inspection()
        self._upload: Upload | None = None
        self._lock = threading.Lock()
        self._given_up = threading.Event()

    def add(self, data: bytes) -> None:
        """Take the next bytes. Raises ApiError where they can't be part of a file, StorageError, GivenUp."""
        with self._lock:
            self._inspection.add(data)
            self._open().add(data)

    def publish(self, filename: str, expires_after: int | None) -> FileRecord:
        """Make a file of what was taken, which everybody of the tenant sees when this returns.

        Raises ApiError, StorageError and GivenUp; then nothing is left.
        """
        with self._lock:
            findings = self._inspection.finish()
            written = self._open().commit()
            try:
                record = self._record(filename, expires_after, written, findings)
                self._check()
                self._gateway.files.create(record.namespace, record.id, record)
            except BaseException:
                drop_unanswered(self._gateway, self._folder.namespace, self._id)
                raise
            return record

    def abort(self) -> None:
        """Drop what was taken; a file that is already published stays."""
        self._given_up.set()
        with self._lock:
            if self._upload is not None:
                self._upload.abort()

    def _open(self) -> Upload:
        self._check()
        if self._upload is None:
            self._upload = self._folder.store.open_upload(self._folder.key(self._id), spool=self._gateway.spool)
        return self._upload

    def _check(self) -> None:
        if self._given_up.is_set():
            raise GivenUp

    def _record(self, filename: str, expires_after: int | None, written: ObjectInfo, findings: Findings) -> FileRecord:
        return FileRecord(
            id=self._id,
            namespace=self._folder.namespace,
            key=self._id,
            bytes=written.size,
            created_at=self._created_at,
            filename=filename,
            purpose=BATCH,
            etag=written.etag,
            user=self._user,
            expires_at=None if expires_after is None else self._created_at + timedelta(seconds=expires_after),
            lines=findings.lines,
            model=self._model(findings),
        )

    def _model(self, findings: Findings) -> str | None:
        if findings.unread_at is None:
            return findings.model
        key, start = self._folder.key(self._id), findings.unread_at
        with _one_long_line:
            line = bytearray()
            for chunk in self._folder.store.stream(key, start=start, end=start + LONGEST_FIRST_LINE):
                end = chunk.find(b"\n")
                line += chunk if end < 0 else chunk[:end]
                if end >= 0:
                    break
            return model_of(bytes(line))
