"""The store for a location."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from batchwright.storage.file import FileStore
from batchwright.storage.location import FILE, Location
from batchwright.storage.protocol import ObjectStore
from batchwright.storage.settings import StorageSettings

if TYPE_CHECKING:
    from batchwright.storage.s3_client import S3Clients


def open_store(
    location: Location,
    settings: StorageSettings | None = None,
    *,
    credentials_dir: Path | None = None,
    ca_bundle: Path | None = None,
) -> ObjectStore:
    """The store that holds the location; `location.key` is a key or prefix of it. Nothing is requested yet.

    credentials_dir: folder with the files AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and perhaps
    AWS_SESSION_TOKEN, read again when they change. None takes the SDK's default chain (web identity, instance
    role, environment).
    ca_bundle: PEM file against which the endpoint's certificate is checked, instead of the public
    authorities.

    Raises MissingCredentials (the folder lacks a key) and Misconfigured (settings that cannot work).
    """
    if location.scheme == FILE:
        return FileStore(Path(location.bucket))
    # A worker with volumes alone would pay for it with half a second and 8 MB.
    from batchwright.storage.s3 import S3Store  # noqa: PLC0415

    settings = settings or StorageSettings()
    clients = _clients(settings, credentials_dir, ca_bundle)
    return S3Store(location.bucket, clients, kms_key_id=settings.kms_key_id)


@functools.lru_cache(maxsize=2)
def _clients(settings: StorageSettings, credentials_dir: Path | None, ca_bundle: Path | None) -> S3Clients:
    """Input and output mostly lie in the same store; then they share connections and memory."""
    from batchwright.storage.s3_client import S3Clients  # noqa: PLC0415

    return S3Clients(settings, credentials_dir, ca_bundle)
