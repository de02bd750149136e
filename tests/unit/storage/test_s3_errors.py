import botocore.exceptions as boto
import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from batchwright.storage import errors
from batchwright.storage.errors import StorageError
from batchwright.storage.s3_errors import PERMISSIONS, translate

URI = "s3://bucket/key"


def answer(status: int, code: str = "", message: str = "") -> ClientError:
    response = {"Error": {"Code": code or str(status), "Message": message}}
    return ClientError({**response, "ResponseMetadata": {"HTTPStatusCode": status}}, "Operation")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operation", "error", "kind"),
    [
        ("GetObject", answer(404, "NoSuchKey"), errors.NotFound),
        ("HeadObject", answer(404), errors.NotFound),
        ("GetObject", answer(404, "NoSuchBucket"), errors.BucketMissing),
        ("ListObjectsV2", answer(404), errors.BucketMissing),
        ("GetObject", answer(403, "AccessDenied"), errors.AccessDenied),
        ("HeadObject", answer(403), errors.AccessDenied),
        ("PutObject", answer(403, "UnheardOf"), errors.AccessDenied),
        ("GetObject", answer(403, "InvalidAccessKeyId"), errors.InvalidCredentials),
        ("GetObject", answer(403, "SignatureDoesNotMatch"), errors.InvalidCredentials),
        ("GetObject", answer(400, "ExpiredToken"), errors.InvalidCredentials),
        ("GetObject", answer(401), errors.InvalidCredentials),
        ("GetObject", answer(403, "RequestTimeTooSkewed"), errors.Misconfigured),
        ("GetObject", answer(301, "PermanentRedirect"), errors.Misconfigured),
        ("HeadObject", answer(301), errors.Misconfigured),
        ("HeadObject", answer(400), errors.Misconfigured),
        ("PutObject", answer(400, "KMS.DisabledException"), errors.Misconfigured),
        ("PutObject", answer(412, "PreconditionFailed"), errors.PreconditionFailed),
        ("GetObject", answer(412, "PreconditionFailed"), errors.ObjectChanged),
        ("HeadObject", answer(412), errors.ObjectChanged),
        ("UploadPartCopy", answer(412, "PreconditionFailed"), errors.ObjectChanged),
        ("PutObject", answer(400, "KeyTooLongError"), errors.InvalidLocation),
        ("UploadPartCopy", answer(501, "NotImplemented"), errors.NotSupported),
        ("DeleteObjects", answer(405, "MethodNotAllowed"), errors.NotSupported),
        ("PutObject", answer(409, "ConditionalRequestConflict"), errors.StorageUnavailable),
        ("PutObject", answer(503, "SlowDown"), errors.StorageUnavailable),
        ("PutObject", answer(500, "InternalError"), errors.StorageUnavailable),
        ("PutObject", answer(502), errors.StorageUnavailable),
        ("PutObject", answer(429), errors.StorageUnavailable),
        ("PutObject", answer(400, "RequestTimeout"), errors.StorageUnavailable),
        ("GetObject", answer(403, "InvalidObjectState"), StorageError),
        ("GetObject", boto.NoCredentialsError(), errors.MissingCredentials),
        ("GetObject", boto.PartialCredentialsError(provider="env", cred_var="x"), errors.MissingCredentials),
        ("GetObject", boto.CredentialRetrievalError(provider="iam", error_msg="x"), errors.InvalidCredentials),
        ("GetObject", boto.EndpointConnectionError(endpoint_url="http://s3"), errors.EndpointUnreachable),
        ("GetObject", boto.ConnectTimeoutError(endpoint_url="http://s3"), errors.EndpointUnreachable),
        ("GetObject", boto.ReadTimeoutError(endpoint_url="http://s3"), errors.StorageUnavailable),
        ("GetObject", boto.ConnectionClosedError(endpoint_url="http://s3"), errors.EndpointUnreachable),
        ("GetObject", boto.ResponseStreamingError(error="cut"), errors.StorageUnavailable),
        ("GetObject", boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), errors.StorageUnavailable),
        ("GetObject", ConnectionResetError("reset"), errors.StorageUnavailable),
        ("GetObject", boto.SSLError(endpoint_url="x", error="CERTIFICATE_VERIFY_FAILED"), errors.Misconfigured),
        ("GetObject", boto.SSLError(endpoint_url="x", error="EOF"), errors.EndpointUnreachable),
        ("GetObject", ResponseParserError("not XML"), errors.Misconfigured),
        ("GetObject", boto.ParamValidationError(report="empty key"), errors.InvalidLocation),
    ],
    ids=str,
)
def test_what_the_sdk_raises_becomes_one_of_ours(operation: str, error: Exception, kind: type[StorageError]) -> None:
    translated = translate(error, operation, URI)
    assert type(translated) is kind
    assert (translated.operation, translated.uri) == (operation, URI)
    assert URI in str(translated)


@pytest.mark.parametrize(("operation", "permission"), PERMISSIONS.items())
def test_a_refusal_names_the_permission_of_the_operation(operation: str, permission: str) -> None:
    error = translate(answer(403, "AccessDenied"), operation, URI)
    assert error.permission == permission
    assert f"Grant {permission}" in str(error)


def test_a_permission_that_the_store_names_goes_first() -> None:
    message = "User: arn:aws:iam::1:user/x is not authorized to perform: kms:GenerateDataKey on resource: key"
    error = translate(answer(403, "AccessDenied", message), "PutObject", URI)
    assert error.permission == "kms:GenerateDataKey"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (answer(403, "RequestTimeTooSkewed"), "clocks"),
        (answer(403, "InvalidObjectState"), "archived"),
        (answer(400, "KMS.NotFoundException"), "kmsKeyID"),
        (answer(301, "PermanentRedirect"), "region"),
        (answer(404, "NoSuchBucket"), "bucket's name"),
        (boto.SSLError(endpoint_url="x", error="CERTIFICATE_VERIFY_FAILED"), "caBundleConfigMapRef"),
        (boto.EndpointConnectionError(endpoint_url="http://s3"), "endpointURL"),
        (boto.NoCredentialsError(), "credentialsSecretRef"),
    ],
    ids=str,
)
def test_a_remedy_says_what_to_do(error: Exception, remedy: str) -> None:
    assert remedy in translate(error, "GetObject", URI).remedy
