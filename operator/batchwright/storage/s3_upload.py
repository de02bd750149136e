"""Writing one S3 object in parts: several at once, bounded in memory, aborted when anything fails."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from batchwright.storage.errors import NotSupported, StorageError, UploadMissing
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectRange, Progress
from batchwright.storage.s3_errors import TRANSPORT_ERRORS, translate, translated
from batchwright.storage.s3_read import quoted, unquoted

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

    from batchwright.storage.s3_client import S3Clients

logger = logging.getLogger(__name__)

PARTS_AT_ONCE = 8
PARTS_IN_MEMORY = 2

_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SentStep:
    """A part whose bytes are loaded when its turn comes."""

    size: int
    load: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class CopiedStep:
    """A part that the store copies by itself."""

    source: ObjectRange
    source_uri: str

    @property
    def size(self) -> int:
        return self.source.size


Step = SentStep | CopiedStep


class ForwardProgress:
    """Progress that never counts a byte twice, although an upload may have to start again."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = 0
        self._reported = 0

    def add(self, size: int) -> None:
        self._done += size
        if self._progress and self._done > self._reported:
            self._progress(self._done - self._reported)
            self._reported = self._done

    def start_again(self) -> None:
        self._done = 0


class MultipartUpload:
    """One upload, as a context: it is begun on entry, and aborted on exit unless it was completed.

    A process that is killed leaves its parts behind, invisible and billed; that is what a lifecycle rule
    (AbortIncompleteMultipartUpload) is for.
    """

    def __init__(
        self,
        clients: S3Clients,
        bucket: str,
        key: str,
        uri: str,
        encryption: Mapping[str, Any],
        *,
        patience: Patience,
    ) -> None:
        self._patience = patience
        self._failed = threading.Event()
        self._clients = clients
        self._target: dict[str, Any] = {"Bucket": bucket, "Key": key}
        self._uri = uri
        self._encryption = encryption
        self._upload: dict[str, Any] = {}
        self._completed = False
        self._memory = threading.BoundedSemaphore(PARTS_IN_MEMORY)

    def __enter__(self) -> MultipartUpload:
        with translated("CreateMultipartUpload", self._uri):
            answer = self._clients.default.create_multipart_upload(**self._target, **self._encryption)
        self._upload = {**self._target, "UploadId": answer["UploadId"]}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._completed:
            self._abort()

    def run(self, steps: Sequence[Step], progress: Progress | None = None) -> None:
        """Perform the steps as the parts 1, 2, 3… and complete the upload. The first error ends it."""
        parts: list[CompletedPartTypeDef | None] = [None] * len(steps)
        with ThreadPoolExecutor(PARTS_AT_ONCE, "batchwright-upload") as pool:
            futures = {pool.submit(self._patiently, number, step): number for number, step in enumerate(steps, 1)}
            try:
                for future in as_completed(futures):
                    number = futures[future]
                    parts[number - 1] = future.result()
                    if progress:
                        progress(steps[number - 1].size)
            except BaseException:
                self._failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        finished = [part for part in parts if part is not None]
        self._patience.call(lambda: self._complete(finished), unless=UploadMissing)

    def _patiently(self, number: int, step: Step) -> CompletedPartTypeDef:
        return self._patience.call(lambda: self._perform(number, step), stopped=self._failed, unless=UploadMissing)

    def _perform(self, number: int, step: Step) -> CompletedPartTypeDef:
        if isinstance(step, CopiedStep):
            return self._copy(number, step)
        with self._memory:
            data = step.load()
            with translated("UploadPart", self._uri):
                answer = self._clients.default.upload_part(**self._upload, PartNumber=number, Body=data)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def _copy(self, number: int, step: CopiedStep) -> CompletedPartTypeDef:
        source = step.source
        conditions: dict[str, Any] = {"CopySourceIfMatch": quoted(source.etag)} if source.etag else {}
        with translated("UploadPartCopy", step.source_uri):
            answer = self._clients.patient.upload_part_copy(
                **self._upload,
                PartNumber=number,
                CopySource={"Bucket": self._target["Bucket"], "Key": source.key},
                CopySourceRange=f"bytes={source.start}-{source.end - 1}",
                **conditions,
            )
        etag = answer.get("CopyPartResult", {}).get("ETag")
        if not etag:
            # A store that does not know the header takes the request for an UploadPart without bytes.
            raise NotSupported("UploadPartCopy", step.source_uri, "the answer has no copy result")
        return {"PartNumber": number, "ETag": etag}

    def _complete(self, parts: list[CompletedPartTypeDef]) -> None:
        try:
            self._clients.patient.complete_multipart_upload(**self._upload, MultipartUpload={"Parts": parts})
        except TRANSPORT_ERRORS as cause:
            error = translate(cause, "CompleteMultipartUpload", self._uri)
            # When the answer was lost, the repetition finds no upload any more, although the object is there.
            if not (error.retryable and self._is_there(parts)):
                raise error from cause
        self._completed = True

    def _is_there(self, parts: list[CompletedPartTypeDef]) -> bool:
        """Whether the object with exactly these parts stands at the key, as far as its ETag can tell."""
        expected = multipart_etag([unquoted(part["ETag"]) for part in parts])
        try:
            answer = self._clients.default.head_object(**self._target)
        except TRANSPORT_ERRORS:
            return False
        return expected is not None and unquoted(answer["ETag"]) == expected

    def _abort(self) -> None:
        try:
            with translated("AbortMultipartUpload", self._uri):
                self._clients.default.abort_multipart_upload(**self._upload)
        except StorageError as error:
            logger.warning("an unfinished upload was left behind: %s", error)


def abort_uploads(client: S3Client, bucket: str, prefix: str, ours: Callable[[str], bool]) -> None:
    """See `ObjectStore.abort_uploads`."""
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    try:
        with translated("ListMultipartUploads", f"s3://{bucket}/{prefix}"):
            found = [upload for page in pages for upload in page.get("Uploads", ()) if ours(upload["Key"])]
    except StorageError as error:
        logger.info("unfinished uploads are not looked for: %s", error)
        return
    for upload in found:
        uri = f"s3://{bucket}/{upload['Key']}"
        try:
            with translated("AbortMultipartUpload", uri):
                client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        except UploadMissing:
            continue
        except StorageError as error:
            logger.warning("an unfinished upload was left behind: %s", error)
        else:
            logger.info("aborted an unfinished upload of %s", uri)


def multipart_etag(part_etags: Sequence[str]) -> str | None:
    """The ETag that S3 gives an object of these parts; None when theirs are no MD5 digests (SSE-KMS)."""
    if not all(_MD5.fullmatch(etag) for etag in part_etags):
        return None
    digests = b"".join(bytes.fromhex(etag) for etag in part_etags)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(part_etags)}"
