"""The object store protocol on S3 and on what speaks like it, over the SDK's client."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from batchwright.storage.errors import (
    AccessDenied,
    Misconfigured,
    NotFound,
    NotSupported,
    ObjectChanged,
    PreconditionFailed,
    SizeMismatch,
    StorageError,
)
from batchwright.storage.join_plan import MAX_PARTS, STREAM_PART_BYTES, CopyPart, Part, plan_parts
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import (
    DEFAULT_CHUNK_BYTES,
    DeleteFailure,
    FetchedObject,
    Literal,
    ObjectInfo,
    Piece,
    Progress,
    Upload,
)
from batchwright.storage.s3_client import S3Clients
from batchwright.storage.s3_errors import (
    TRANSPORT_ERRORS,
    code_of,
    from_answer,
    status_of,
    translate,
    translated,
)
from batchwright.storage.s3_multipart import Target, abort_uploads
from batchwright.storage.s3_read import ReadRequest, ResumingRead, quoted, required_etag, unquoted
from batchwright.storage.s3_spooled import SpooledUpload
from batchwright.storage.s3_upload import CopiedStep, ForwardProgress, SentStep, Step, SteppedUpload

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

logger = logging.getLogger(__name__)

SINGLE_PUT_BYTES = 2 * STREAM_PART_BYTES
"""Up to this size an object is written by one plain PUT."""

MAX_CONFLICTS = 6
FIRST_PAUSE = 0.1  # seconds

DELETE_BATCH = 1000  # keys in one DeleteObjects, the limit of the API
READERS = 8

_CONFLICT = 409


class S3Store:
    """One bucket. May be used by several threads at once; nothing is requested before the first call."""

    def __init__(
        self,
        bucket: str,
        clients: S3Clients,
        *,
        kms_key_id: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """kms_key_id: encrypt what is written with this key (SSE-KMS); None leaves it to the bucket's
        default.
        """
        self._bucket = bucket
        self._clients = clients
        self._client = clients.default
        self._sleep = sleep
        self._copies = True
        self._encryption: dict[str, Any] = (
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id} if kms_key_id else {}
        )

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def head(self, key: str) -> ObjectInfo:
        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            return self._head_by_get(key, error)
        except TRANSPORT_ERRORS as error:
            raise translate(error, "HeadObject", self.uri(key)) from error
        required_etag(answer, "HeadObject", self.uri(key))
        return _info(key, answer["ContentLength"], answer)

    def _head_by_get(self, key: str, refused: ClientError) -> ObjectInfo:
        """The answer to a HEAD has no body and so no reason. A GET of one byte gives it, or even the
        object.
        """
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key, Range="bytes=0-0")
        except ClientError as error:
            told = refused if status_of(error) == 416 else error  # noqa: PLR2004 (an empty object)
            raise translate(told, "GetObject", self.uri(key)) from error
        except TRANSPORT_ERRORS as error:
            raise translate(error, "GetObject", self.uri(key)) from error
        answer["Body"].close()
        required_etag(answer, "GetObject", self.uri(key))
        size = answer.get("ContentRange", "").rpartition("/")[2]
        return _info(key, int(size) if size.isdigit() else answer["ContentLength"], answer)

    def read(self, key: str) -> bytes:
        return self.fetch(key).data

    def fetch(self, key: str) -> FetchedObject:
        reading = self._reading(key, 0, None, None)
        data = b"".join(reading.chunks(DEFAULT_CHUNK_BYTES))
        return FetchedObject(ObjectInfo(key, len(data), reading.etag or "", reading.version_id), data)

    def stream(
        self,
        key: str,
        *,
        start: int = 0,
        end: int | None = None,
        if_match: str | None = None,
        chunk_size: int = DEFAULT_CHUNK_BYTES,
    ) -> Iterator[bytes]:
        if end is not None and end <= start:
            return iter(())
        return self._reading(key, start, end, if_match).chunks(chunk_size)

    def _reading(self, key: str, start: int, end: int | None, etag: str | None) -> ResumingRead:
        request = ReadRequest(self._bucket, key, self.uri(key), start, end, etag)
        return ResumingRead(self._client, request, self._sleep)

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        if if_none_match and if_match:
            raise ValueError("if_none_match and if_match exclude each other")
        conditions: dict[str, Any] = {"IfNoneMatch": "*"} if if_none_match else {}
        if if_match:
            conditions = {"IfMatch": quoted(if_match)}
        for conflicts in range(1, MAX_CONFLICTS + 1):
            try:
                answer = self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=data, **self._encryption, **conditions
                )
                return _info(key, len(data), answer)
            except TRANSPORT_ERRORS as cause:
                error = translate(cause, "PutObject", self.uri(key))
                if if_match and isinstance(error, NotFound):
                    raise PreconditionFailed("PutObject", error.uri, "the object is gone") from cause
                conflict = error.retryable and isinstance(cause, ClientError) and status_of(cause) == _CONFLICT
                if not conflict or conflicts == MAX_CONFLICTS:
                    raise error from cause
            self._sleep(FIRST_PAUSE * 2 ** (conflicts - 1) * random.uniform(0.5, 1))  # noqa: S311 (jitter)
        raise AssertionError("the loop returns or raises")

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        size = path.stat().st_size
        if size <= SINGLE_PUT_BYTES:
            return self.write(key, path.read_bytes())
        part = max(STREAM_PART_BYTES, -(-size // MAX_PARTS))
        with path.open("rb") as file:
            steps = [_file_step(file.fileno(), start, min(start + part, size)) for start in range(0, size, part)]
            return self._upload(key, steps, None, Patience())

    def open_upload(self, key: str, *, spool: Path) -> Upload:
        return SpooledUpload(
            self._clients, self._target(key), spool, lambda size: self._verified(key, size, Patience())
        )

    def _target(self, key: str) -> Target:
        return Target(self._bucket, key, self._encryption)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        after: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix, **after)
        with translated("ListObjectsV2", self.uri(prefix)):
            for page in pages:
                for entry in page.get("Contents", ()):
                    yield ObjectInfo(entry["Key"], entry["Size"], unquoted(entry.get("ETag", "")))

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        remaining = iter(keys)
        failures: list[DeleteFailure] = []
        while batch := tuple(islice(remaining, DELETE_BATCH)):
            failures.extend(self._delete_batch(batch))
        return tuple(failures)

    def _delete_batch(self, keys: Sequence[str]) -> Iterator[DeleteFailure]:
        objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in keys]
        try:
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
        except TRANSPORT_ERRORS as cause:
            error = translate(cause, "DeleteObjects", self.uri(""))
            if isinstance(error, (NotSupported, Misconfigured)):
                # A store without DeleteObjects, or keys that XML cannot carry.
                yield from (failure for key in keys for failure in self._delete_one(key))
            else:
                yield from (_failure(key, error) for key in keys)
            return
        for entry in answer.get("Errors", ()):
            key, code = entry.get("Key", ""), entry.get("Code", "")
            if code != "NoSuchKey":
                message = entry.get("Message", "")
                told = from_answer("DeleteObjects", self.uri(key), code=code, status=0, message=message)
                yield _failure(key, told)

    def _delete_one(self, key: str) -> Iterator[DeleteFailure]:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=key)
        except TRANSPORT_ERRORS as cause:
            if not (isinstance(cause, ClientError) and code_of(cause) == "NoSuchKey"):
                yield _failure(key, translate(cause, "DeleteObject", self.uri(key)))

    def join(
        self,
        key: str,
        pieces: Iterable[Piece],
        *,
        progress: Progress | None = None,
        patience: Patience | None = None,
    ) -> ObjectInfo:
        patience = patience or Patience()
        wanted = [piece for piece in pieces if piece.size]
        with ThreadPoolExecutor(READERS, "batchwright-read") as readers:
            if sum(piece.size for piece in wanted) <= SINGLE_PUT_BYTES:
                data = patience.call(lambda: self._load(wanted, readers))
                patience.call(lambda: self.write(key, data))
                if progress:
                    progress(len(data))
                return self._verified(key, len(data), patience)
            return self._join_parts(key, wanted, readers, ForwardProgress(progress), patience)

    def _join_parts(
        self,
        key: str,
        pieces: Sequence[Piece],
        readers: ThreadPoolExecutor,
        forward: ForwardProgress,
        patience: Patience,
    ) -> ObjectInfo:
        parts = plan_parts(pieces, copies=self._copies)
        try:
            return self._upload(key, [self._step(part, readers) for part in parts], forward.add, patience)
        except (NotSupported, AccessDenied, Misconfigured, SizeMismatch) as error:
            copied = any(isinstance(part, CopyPart) for part in parts)
            if not copied or (error.operation != "UploadPartCopy" and not isinstance(error, SizeMismatch)):
                raise
            logger.info("streaming instead of copying parts: %s", error)
            if isinstance(error, NotSupported):
                self._copies = False
        parts = plan_parts(pieces, copies=False)
        forward.start_again()
        return self._upload(key, [self._step(part, readers) for part in parts], forward.add, patience)

    def _step(self, part: Part, readers: ThreadPoolExecutor) -> Step:
        if isinstance(part, CopyPart):
            return CopiedStep(part.source, self.uri(part.source.key))
        return SentStep(part.size, lambda: self._load(part.pieces, readers))

    def _upload(self, key: str, steps: Sequence[Step], progress: Progress | None, patience: Patience) -> ObjectInfo:
        with SteppedUpload(self._clients, self._target(key), patience=patience) as upload:
            upload.run(steps, progress)
        return self._verified(key, sum(step.size for step in steps), patience)

    def abort_uploads(self, prefix: str, ours: Callable[[str], bool], *, begun_before: datetime | None = None) -> None:
        abort_uploads(self._client, self._bucket, prefix, ours, begun_before)

    def _verified(self, key: str, size: int, patience: Patience) -> ObjectInfo:
        info = patience.call(lambda: self.head(key))
        if info.size != size:
            raise SizeMismatch("HeadObject", self.uri(key), f"{info.size} bytes instead of {size}")
        return info

    def _load(self, pieces: Sequence[Piece], readers: ThreadPoolExecutor) -> bytes:
        return b"".join(readers.map(self._load_piece, pieces))

    def _load_piece(self, piece: Piece) -> bytes:
        if isinstance(piece, Literal):
            return piece.data
        data = b"".join(self._reading(piece.key, piece.start, piece.end, piece.etag).chunks(piece.size))
        if len(data) != piece.size:
            detail = f"{len(data)} bytes instead of {piece.size} in [{piece.start}, {piece.end})"
            raise ObjectChanged("GetObject", self.uri(piece.key), detail)
        return data


def _info(key: str, size: int, answer: Any) -> ObjectInfo:
    version = answer.get("VersionId")
    return ObjectInfo(key, size, unquoted(answer.get("ETag", "")), None if version == "null" else version)


def _failure(key: str, error: StorageError) -> DeleteFailure:
    permission = error.permission if isinstance(error, AccessDenied) else None
    return DeleteFailure(key, str(error), permission, error.retryable)


def _file_step(descriptor: int, start: int, end: int) -> SentStep:
    return SentStep(end - start, lambda: os.pread(descriptor, end - start, start))
