"""The calls of one S3 multipart upload, and which uploads of others are removed."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from batchwright.storage.errors import NotSupported, StorageError, UploadMissing
from batchwright.storage.protocol import ObjectRange
from batchwright.storage.s3_errors import TRANSPORT_ERRORS, translate, translated
from batchwright.storage.s3_read import quoted, unquoted

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

    from batchwright.storage.s3_client import S3Clients

logger = logging.getLogger(__name__)

_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Target:
    """The object that is to be written. encryption: what is asked for in the call that begins a write."""

    bucket: str
    key: str
    encryption: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def names(self) -> dict[str, Any]:
        """The object as the SDK's calls name it."""
        return {"Bucket": self.bucket, "Key": self.key}


class Multipart:
    """One multipart upload that has begun. Parts may be sent by several threads at once.

    A process that is killed leaves its parts behind, invisible and billed; that is what a lifecycle rule
    (AbortIncompleteMultipartUpload) is for.
    """

    def __init__(self, clients: S3Clients, target: Target, upload_id: str) -> None:
        self._clients = clients
        self._target = target
        self._upload: dict[str, Any] = {**target.names, "UploadId": upload_id}
        self._over = False

    @classmethod
    def begin(cls, clients: S3Clients, target: Target) -> Multipart:
        """A new upload. Raises what the call raises."""
        with translated("CreateMultipartUpload", target.uri):
            answer = clients.default.create_multipart_upload(**target.names, **target.encryption)
        return cls(clients, target, answer["UploadId"])

    def send(self, number: int, body: bytes | IO[bytes]) -> CompletedPartTypeDef:
        """Send the part of that number (from 1). A file is sent from where it stands, in small pieces, even again."""
        with translated("UploadPart", self._target.uri):
            answer = self._clients.default.upload_part(**self._upload, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def copy(self, number: int, source: ObjectRange, source_uri: str) -> CompletedPartTypeDef:
        """Let the store copy the part from another object of the bucket."""
        conditions: dict[str, Any] = {"CopySourceIfMatch": quoted(source.etag)} if source.etag else {}
        with translated("UploadPartCopy", source_uri):
            answer = self._clients.patient.upload_part_copy(
                **self._upload,
                PartNumber=number,
                CopySource={"Bucket": self._target.bucket, "Key": source.key},
                CopySourceRange=f"bytes={source.start}-{source.end - 1}",
                **conditions,
            )
        etag = answer.get("CopyPartResult", {}).get("ETag")
        if not etag:
            # A store that does not know the header takes the request for an UploadPart without bytes.
            raise NotSupported("UploadPartCopy", source_uri, "the answer has no copy result")
        return {"PartNumber": number, "ETag": etag}

    def complete(self, parts: Sequence[CompletedPartTypeDef]) -> None:
        """Make the object of these parts. Afterwards an abort does nothing."""
        try:
            self._clients.patient.complete_multipart_upload(**self._upload, MultipartUpload={"Parts": parts})
        except TRANSPORT_ERRORS as cause:
            error = translate(cause, "CompleteMultipartUpload", self._target.uri)
            # When the answer was lost, the repetition finds no upload any more, although the object is there.
            if not (error.retryable and self._is_there(parts)):
                raise error from cause
        self._over = True

    def _is_there(self, parts: Sequence[CompletedPartTypeDef]) -> bool:
        """Whether the object with exactly these parts stands at the key, as far as its ETag can tell."""
        expected = multipart_etag([unquoted(part["ETag"]) for part in parts])
        try:
            answer = self._clients.default.head_object(**self._target.names)
        except TRANSPORT_ERRORS:
            return False
        return expected is not None and unquoted(answer["ETag"]) == expected

    def abort(self) -> None:
        """Drop the parts, unless the upload is over. A refusal is logged."""
        if self._over:
            return
        self._over = True
        try:
            with translated("AbortMultipartUpload", self._target.uri):
                self._clients.default.abort_multipart_upload(**self._upload)
        except UploadMissing:
            return
        except StorageError as error:
            logger.warning("an unfinished upload was left behind: %s", error)


def abort_uploads(
    client: S3Client, bucket: str, prefix: str, ours: Callable[[str], bool], begun_before: datetime | None
) -> None:
    """See `ObjectStore.abort_uploads`."""
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    try:
        with translated("ListMultipartUploads", f"s3://{bucket}/{prefix}"):
            # All of them first: those that go meanwhile would shift the pages.
            found = [
                upload
                for page in pages
                for upload in page.get("Uploads", ())
                if (begun_before is None or upload["Initiated"] < begun_before) and ours(upload["Key"])
            ]
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
