"""What botocore raises, as the errors of this package: with the permission, the URI and a remedy.

Codes are those of Amazon S3 ("Error responses", list of error codes) and the ones that other stores are known
to send.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from batchwright.storage import errors
from batchwright.storage.errors import StorageError

PERMISSIONS = {
    "HeadObject": "s3:GetObject",
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "UploadPartCopy": "s3:GetObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
}
"""What a policy must allow for each operation (Amazon S3, "Required permissions for API operations")."""

READS = frozenset({"HeadObject", "GetObject", "UploadPartCopy"})

TRANSPORT_ERRORS = (ClientError, BotoCoreError, ResponseParserError, HTTPError, OSError)
"""All that a call or a read of its body can raise when the store, the network or the credentials are at
fault.
"""

_Kind = type[StorageError]

_CODES: dict[str, _Kind] = {
    "NoSuchKey": errors.NotFound,
    "NoSuchBucket": errors.BucketMissing,
    "AccessDenied": errors.AccessDenied,
    "AllAccessDisabled": errors.AccessDenied,
    "AccountProblem": errors.AccessDenied,
    "InvalidAccessKeyId": errors.InvalidCredentials,
    "SignatureDoesNotMatch": errors.InvalidCredentials,
    "ExpiredToken": errors.InvalidCredentials,
    "ExpiredTokenException": errors.InvalidCredentials,
    "TokenRefreshRequired": errors.InvalidCredentials,
    "InvalidToken": errors.InvalidCredentials,
    "InvalidClientTokenId": errors.InvalidCredentials,
    "InvalidSecurity": errors.InvalidCredentials,
    "NotSignedUp": errors.InvalidCredentials,
    "InvalidIdentityToken": errors.InvalidCredentials,
    "RequestTimeTooSkewed": errors.Misconfigured,
    "PreconditionFailed": errors.PreconditionFailed,
    "PermanentRedirect": errors.Misconfigured,
    "TemporaryRedirect": errors.Misconfigured,
    "AuthorizationHeaderMalformed": errors.Misconfigured,
    "IllegalLocationConstraintException": errors.Misconfigured,
    "InvalidBucketName": errors.Misconfigured,
    "KeyTooLongError": errors.InvalidLocation,
    # versitygw over a folder: a key cannot be a file and a folder at once.
    "ExistingObjectIsDirectory": errors.InvalidLocation,
    "ObjectParentIsFile": errors.InvalidLocation,
    "InvalidObjectState": StorageError,
    "NotImplemented": errors.NotSupported,
    "XNotImplemented": errors.NotSupported,
    "MethodNotAllowed": errors.NotSupported,
    "BadDigest": errors.StorageUnavailable,
    "IncompleteBody": errors.StorageUnavailable,
    "RequestTimeout": errors.StorageUnavailable,
    "RequestTimeoutException": errors.StorageUnavailable,
    "InternalError": errors.StorageUnavailable,
    "ServiceUnavailable": errors.StorageUnavailable,
    "SlowDown": errors.StorageUnavailable,
    "Throttling": errors.StorageUnavailable,
    "ThrottlingException": errors.StorageUnavailable,
    "TooManyRequests": errors.StorageUnavailable,
    "OperationAborted": errors.StorageUnavailable,
    "ConditionalRequestConflict": errors.StorageUnavailable,
    "NoSuchUpload": errors.UploadMissing,
}

_STATUSES: dict[int, _Kind] = {
    301: errors.Misconfigured,
    307: errors.Misconfigured,
    400: errors.Misconfigured,
    401: errors.InvalidCredentials,
    403: errors.AccessDenied,
    404: errors.NotFound,
    405: errors.NotSupported,
    408: errors.StorageUnavailable,
    409: errors.StorageUnavailable,
    412: errors.PreconditionFailed,
    429: errors.StorageUnavailable,
    501: errors.NotSupported,
}

_SERVER_ERROR = 500

_REVOKED = "CredentialsRevoked"

_REMEDIES: dict[_Kind, str] = {
    errors.NotFound: "Check the key; it is taken literally, nothing is percent-decoded.",
    errors.BucketMissing: "Check the bucket's name, and the endpoint and region that it is looked for in.",
    errors.InvalidCredentials: "Check the keys in the Secret, whether they have expired, and that they belong to this"
    " endpoint.",
    errors.CredentialsRevoked: "The new keys of a rotated Secret reach the pod within about two minutes.",
    errors.MissingCredentials: "Set credentialsSecretRef, or give the service account or the node an identity that"
    " the SDK finds.",
    errors.Misconfigured: "Check endpointURL, region, addressingStyle and signatureVersion.",
    errors.EndpointUnreachable: "Check endpointURL, and that the network and its policies let the pod reach it.",
}

_MISSING_OR_REFUSED = (
    "S3 also answers so for an object that does not exist, unless s3:ListBucket is granted on the bucket."
)


_CODE_REMEDIES = {
    "RequestTimeTooSkewed": "The clocks of the node and the store differ; set them right.",
    "InvalidObjectState": "The object is archived; restore it first.",
}

_ROLE_REMEDY = (
    "Check the role of the worker's service account, that its trust policy names that service account, and that it"
    " exists; or set credentialsSecretRef."
)

_LASTING_TLS_ERRORS = ("CERTIFICATE", "WRONG_VERSION_NUMBER")
_TLS_REMEDY = (
    "Give the certificate of the authority that signed the store's (caBundleConfigMapRef), and check that endpointURL"
    " has the right scheme and host name."
)


@contextmanager
def translated(operation: str, uri: str) -> Iterator[None]:
    """Whatever the store's client raises inside comes out as a StorageError."""
    try:
        yield
    except TRANSPORT_ERRORS as error:
        raise translate(error, operation, uri) from error


def translate(error: Exception, operation: str, uri: str) -> StorageError:
    """The StorageError for one of TRANSPORT_ERRORS."""
    if isinstance(error, ClientError) and error.operation_name.startswith("AssumeRole"):
        # The SDK fetches credentials while it signs; a refusal there says nothing about the bucket.
        return errors.InvalidCredentials(operation, uri, str(error), None, _ROLE_REMEDY)
    if isinstance(error, ClientError):
        message = str(error.response.get("Error", {}).get("Message", "")).strip()
        told = from_answer(operation, uri, code=code_of(error), status=status_of(error), message=message)
        return _revoked(told) if _is_marked(error) else told
    return _from_transport(error, operation, uri)


def refuses_credentials(answer: Mapping[str, Any], status: int) -> bool:
    """Whether the SDK's parsed answer, of this HTTP status, refuses who asks, and not what is asked for."""
    code = str(answer.get("Error", {}).get("Code", ""))
    return issubclass(_kind(code, status, ""), errors.InvalidCredentials)


def mark_revoked(answer: dict[str, Any]) -> None:
    """Note in the SDK's parsed answer that it refuses credentials which may come back (see `rotation`)."""
    answer.setdefault("ResponseMetadata", {})[_REVOKED] = True


def _is_marked(error: ClientError) -> bool:
    return _REVOKED in error.response.get("ResponseMetadata", {})


def _revoked(told: StorageError) -> StorageError:
    remedy = _REMEDIES[errors.CredentialsRevoked]
    return errors.CredentialsRevoked(told.operation, told.uri, told.detail, told.permission, remedy)


def status_of(error: ClientError) -> int:
    """The HTTP status of an answer; 0 when it is unknown."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """The code of an answer, such as NoSuchKey; the HTTP status in digits where it has no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def from_answer(operation: str, uri: str, *, code: str, status: int, message: str) -> StorageError:
    """The StorageError for what a store answered."""
    kind = _kind(code, status, operation)
    detail = f"{code}: {message}" if message else f"HTTP {code or status}"
    permission = _permission(kind, operation, message)
    return kind(operation, uri, detail, permission, _remedy(kind, operation, permission, code))


def _kind(code: str, status: int, operation: str) -> _Kind:
    if code.startswith("KMS."):
        return errors.Misconfigured
    kind = _CODES.get(code) or _STATUSES.get(status)
    if kind is None:
        kind = errors.StorageUnavailable if status >= _SERVER_ERROR else StorageError
    if kind is errors.PreconditionFailed and operation in READS:
        return errors.ObjectChanged
    if kind is errors.NotFound and operation in {"ListObjectsV2", "ListMultipartUploads", "DeleteObjects"}:
        return errors.BucketMissing
    return kind


def _permission(kind: _Kind, operation: str, message: str) -> str | None:
    if kind is errors.AccessDenied:
        # Amazon names the action that its policies refused, which may be one of KMS.
        named = re.search(r"perform: ([\w-]+:\w+)", message)
        if named:
            return named.group(1)
    return PERMISSIONS.get(operation)


def _remedy(kind: _Kind, operation: str, permission: str | None, code: str) -> str:
    if kind is errors.AccessDenied:
        remedy = f"Grant {permission} to these credentials." if permission else ""
        return f"{remedy} {_MISSING_OR_REFUSED}" if operation in READS else remedy
    if code.startswith("KMS."):
        return "Check serverSideEncryption.kmsKeyID and that the key is enabled."
    return _CODE_REMEDIES.get(code) or _REMEDIES.get(kind, "")


_TRANSPORT_KINDS: tuple[tuple[tuple[type[Exception], ...], _Kind], ...] = (
    ((boto.NoCredentialsError, boto.PartialCredentialsError), errors.MissingCredentials),
    ((boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.SSOError), errors.InvalidCredentials),
    ((boto.EndpointConnectionError, boto.ConnectTimeoutError), errors.EndpointUnreachable),
    # A closed connection is also what a TLS server does to http://, so the address is worth a look.
    ((boto.ProxyConnectionError, boto.SSLError, boto.ConnectionClosedError), errors.EndpointUnreachable),
    ((boto.HTTPClientError, boto.ConnectionError, HTTPError, OSError), errors.StorageUnavailable),
    ((boto.IncompleteReadError,), errors.StorageUnavailable),
    ((boto.ParamValidationError,), errors.InvalidLocation),
)
"""The first entry that fits; what is in none of them is a setting that the SDK refuses."""


def _from_transport(error: Exception, operation: str, uri: str) -> StorageError:
    detail = " ".join(str(error).split())
    if isinstance(error, boto.SSLError) and any(word in detail.upper() for word in _LASTING_TLS_ERRORS):
        return errors.Misconfigured(operation, uri, detail, None, _TLS_REMEDY)
    kinds = (kind for types, kind in _TRANSPORT_KINDS if isinstance(error, types))
    kind = next(kinds, errors.Misconfigured)
    return kind(operation, uri, detail, PERMISSIONS.get(operation), _REMEDIES.get(kind, ""))
