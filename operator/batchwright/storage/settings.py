"""How to reach a store, and how patient to be with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from batchwright.storage.rotation import ROTATION_SECONDS

if TYPE_CHECKING:
    from batchwright.api.batchjob import Storage

AddressingStyle = Literal["auto", "path", "virtual"]
SignatureVersion = Literal["s3v4", "s3"]
RetryMode = Literal["standard", "adaptive"]


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Connection settings of an S3 store; `file://` uses none of them.

    endpoint_url: the store's address; None is Amazon S3 in the region
    region: None takes the environment's (AWS_REGION, AWS_DEFAULT_REGION, profile), else us-east-1, which most
    other stores accept
    addressing_style: "path" (endpoint/bucket/key) for most stores behind one name, "virtual"
    (bucket.endpoint/key)
    signature_version: "s3v4"; "s3" (version 2) only for old stores
    kms_key_id: encrypt what is written with this key (SSE-KMS); None leaves it to the bucket's default
    connect_timeout, read_timeout: seconds; a read that yields nothing for so long is cut and taken up again
    max_attempts: tries of one request in all, by the SDK
    rotation_seconds: how long mounted credentials that were accepted before may be refused, until the new ones of a
    rotated Secret are mounted
    max_connections: should not be below the number of threads that use the store
    """

    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: AddressingStyle = "auto"
    signature_version: SignatureVersion = "s3v4"
    kms_key_id: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    retry_mode: RetryMode = "standard"
    max_attempts: int = 5
    rotation_seconds: float = ROTATION_SECONDS
    max_connections: int = 32

    @classmethod
    def from_spec(cls, storage: Storage | None) -> StorageSettings:
        """From the resource's `storage` field. With an endpoint of its own the bucket goes into the path."""
        if storage is None:
            return cls()
        encryption = storage.server_side_encryption
        return cls(
            endpoint_url=storage.endpoint_url,
            region=storage.region,
            addressing_style=storage.addressing_style or ("path" if storage.endpoint_url else "auto"),
            signature_version=storage.signature_version or "s3v4",
            kms_key_id=encryption.kms_key_id if encryption else None,
        )
