"""The clients that the S3 store works with.

They are botocore's, the very objects that boto3 hands out. boto3 itself is not imported: it would bring its
transfer manager, which costs each worker a quarter of a second and some megabytes and is not used here.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, Credentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session, get_session

from batchwright.api.defaults import DEFAULT_REGION
from batchwright.storage.credentials import FileCredentials
from batchwright.storage.errors import Misconfigured
from batchwright.storage.rotation import Rotation
from batchwright.storage.s3_errors import mark_revoked, refuses_credentials
from batchwright.storage.settings import StorageSettings

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from mypy_boto3_s3 import S3Client

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
    """The client for all calls, and one of more patience for those in which the store does long work.

    Several stores may share them, and with them connections and about 12 MB of memory.
    """

    def __init__(
        self, settings: StorageSettings, credentials_dir: Path | None = None, ca_bundle: Path | None = None
    ) -> None:
        """Raises MissingCredentials (files of a given folder) and Misconfigured. No request is made."""
        _check(ca_bundle)
        session = _session(credentials_dir)
        self.default = _client(session, settings, ca_bundle, settings.read_timeout)
        self.patient = _client(session, settings, ca_bundle, max(settings.read_timeout, ASSEMBLY_READ_TIMEOUT))
        if credentials_dir is not None:
            # The environment's never change, and the SDK renews those of an identity in time.
            rotation = Rotation(settings.rotation_seconds)
            for client in (self.default, self.patient):
                _watch(client, rotation)


def _check(ca_bundle: Path | None) -> None:
    """A bundle that cannot be used must be said now; later it would look like a network error."""
    if ca_bundle is None:
        return
    try:
        ssl.create_default_context(cafile=str(ca_bundle))
    except OSError as error:  # ssl.SSLError is one
        remedy = "The CA bundle must be a file of PEM certificates."
        raise Misconfigured("connect", str(ca_bundle), str(error), None, remedy) from error


def _session(credentials_dir: Path | None) -> Session:
    session = get_session()
    if credentials_dir is not None:
        provider = _FileCredentialProvider(FileCredentials(credentials_dir))
        # Nothing else is asked: the wrong identity would be worse than none.
        session.register_component("credential_provider", CredentialResolver([provider]))
    return session


def _client(session: Session, settings: StorageSettings, ca_bundle: Path | None, read_timeout: float) -> S3Client:
    try:
        made = session.create_client(
            "s3",
            endpoint_url=settings.endpoint_url,
            region_name=settings.region or _region_of_environment(session),
            verify=str(ca_bundle) if ca_bundle else None,
            config=_config(settings, read_timeout),
        )
    except (BotoCoreError, ValueError) as error:
        place = settings.endpoint_url or "s3"
        raise Misconfigured("connect", place, str(error), None, "Check endpointURL and region.") from error
    made.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
    return cast("S3Client", made)


def _watch(client: S3Client, rotation: Rotation) -> None:
    """Tell of each answer whether the store accepted the credentials, and mark refusals that may pass."""

    def answered(http_response: AWSResponse, parsed: dict[str, Any], **_: object) -> None:
        if http_response.status_code < HTTPStatus.MULTIPLE_CHOICES:
            rotation.accepted()
        elif refuses_credentials(parsed, http_response.status_code) and rotation.refused():
            mark_revoked(parsed)

    client.meta.events.register("after-call.s3", answered)


def _region_of_environment(session: Session) -> str:
    # AWS_REGION is what Amazon's web identity webhook and other SDKs use; botocore knows AWS_DEFAULT_REGION
    # only.
    return os.environ.get("AWS_REGION") or session.get_config_variable("region") or DEFAULT_REGION


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
