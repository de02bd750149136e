"""The boto3 client that the S3 store works with."""

from __future__ import annotations

import base64
import hashlib
import ssl
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, Credentials
from botocore.exceptions import BotoCoreError

from batchwright.storage.credentials import FileCredentials
from batchwright.storage.errors import Misconfigured
from batchwright.storage.settings import StorageSettings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FALLBACK_REGION = "us-east-1"

ASSEMBLY_READ_TIMEOUT = 900.0
"""Seconds. A store may copy gigabytes before it answers UploadPartCopy or CompleteMultipartUpload."""


class _FileCredentialProvider(CredentialProvider):
    METHOD = "batchwright-files"
    CANONICAL_NAME = None

    def __init__(self, credentials: FileCredentials) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Credentials:
        return self._credentials


class S3Clients:
    """The client for all calls, and one of more patience for those in which the store does long work."""

    def __init__(
        self, settings: StorageSettings, credentials_dir: Path | None = None, ca_bundle: Path | None = None
    ) -> None:
        """Raises MissingCredentials (files of a given folder) and Misconfigured. No request is made."""
        _check(ca_bundle)
        session = _session(credentials_dir)
        self.default = _client(session, settings, ca_bundle, settings.read_timeout)
        self._make_patient = partial(_client, session, settings, ca_bundle, ASSEMBLY_READ_TIMEOUT)
        self._patient: S3Client | None = None
        self._lock = threading.Lock()  # making a client is not thread-safe, using it is

    @property
    def patient(self) -> S3Client:
        """Made when it is first needed, which for most processes is never."""
        with self._lock:
            if self._patient is None:
                self._patient = self._make_patient()
            return self._patient


def _check(ca_bundle: Path | None) -> None:
    """A bundle that cannot be used must be said now; later it would look like a network error."""
    if ca_bundle is None:
        return
    try:
        ssl.create_default_context(cafile=str(ca_bundle))
    except OSError as error:  # ssl.SSLError is one
        remedy = "The CA bundle must be a file of PEM certificates."
        raise Misconfigured("connect", str(ca_bundle), str(error), None, remedy) from error


def _session(credentials_dir: Path | None) -> boto3.session.Session:
    core = botocore.session.get_session()
    if credentials_dir is not None:
        provider = _FileCredentialProvider(FileCredentials(credentials_dir))
        # Nothing else is asked: the wrong identity would be worse than none.
        core.register_component("credential_provider", CredentialResolver([provider]))
    return boto3.session.Session(botocore_session=core)


def _client(
    session: boto3.session.Session, settings: StorageSettings, ca_bundle: Path | None, read_timeout: float
) -> S3Client:
    try:
        client: S3Client = session.client(
            "s3",
            endpoint_url=settings.endpoint_url,
            region_name=settings.region or session.region_name or FALLBACK_REGION,
            verify=str(ca_bundle) if ca_bundle else None,
            config=_config(settings, read_timeout),
        )
    except (BotoCoreError, ValueError) as error:
        place = settings.endpoint_url or "s3"
        raise Misconfigured("connect", place, str(error), None, "Check endpointURL and region.") from error
    client.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
    return client


def _config(settings: StorageSettings, read_timeout: float) -> Config:
    return Config(
        signature_version=settings.signature_version,
        s3={"addressing_style": settings.addressing_style},
        # Many stores refuse or corrupt the checksums that newer SDKs send unasked.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": settings.retry_mode, "total_max_attempts": settings.max_attempts},
        connect_timeout=settings.connect_timeout,
        read_timeout=read_timeout,
        max_pool_connections=settings.max_connections,
        tcp_keepalive=True,
        user_agent_extra="batchwright",
    )


def _add_content_md5(params: dict[str, Any], **_: object) -> None:
    """DeleteObjects needs a checksum; the SDK sends CRC32 only, and many stores know MD5 only."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()
