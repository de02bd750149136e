"""Errors as OpenAI's clients read them: `{"error": {"message", "type", "param", "code"}}`, always all four."""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

INVALID_REQUEST: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
RATE_LIMIT: Final = "rate_limit_error"
ADMINISTRATOR_SECONDS: Final = 30.0
"""After which a client may try again what waits for an administrator."""
NO_RETRY: Final[Mapping[str, str]] = {"x-should-retry": "false"}
"""The official SDK retries 409 unless it is told not to."""


class ApiError(Exception):
    """A request that is answered with an error. The message names the cause and the remedy."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = INVALID_REQUEST,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.kind = kind
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid_api_key() -> ApiError:
    """No key, or one that is unknown. Nothing of it is repeated."""
    return ApiError(
        HTTPStatus.UNAUTHORIZED,
        "Incorrect API key provided. Send the key of this gateway as `Authorization: Bearer KEY`.",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


def forbidden(message: str) -> ApiError:
    """A known user who may not do this."""
    return ApiError(HTTPStatus.FORBIDDEN, message, code="permission_denied")


def no_such_file(file_id: str) -> ApiError:
    """There is none, or it is another tenant's: nobody learns which."""
    return ApiError(HTTPStatus.NOT_FOUND, f"No such File object: {shown_id(file_id)}", param="id")


def no_such_batch(batch_id: str) -> ApiError:
    """There is none, or it is another tenant's: nobody learns which."""
    return ApiError(HTTPStatus.NOT_FOUND, f"No batch found with id '{shown_id(batch_id)}'.", param="batch_id")


def missing_parameter(name: str) -> ApiError:
    """A field that is required."""
    return ApiError(
        HTTPStatus.BAD_REQUEST,
        f"Missing required parameter: '{name}'.",
        code="missing_required_parameter",
        param=name,
    )


def invalid_type(name: str, expected: str) -> ApiError:
    """A field of another JSON type."""
    return ApiError(
        HTTPStatus.BAD_REQUEST,
        f"Invalid type for '{name}': expected {expected}.",
        code="invalid_type",
        param=name,
    )


def invalid_value(name: str, message: str) -> ApiError:
    """A field with a value that can't be; the message says which could."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, code="invalid_value", param=name)


def not_one_of(name: str, value: str, supported: Collection[str]) -> ApiError:
    """A field that must be one of a few values."""
    listed = ", ".join(f"'{one}'" for one in supported)
    return invalid_value(name, f"Invalid value: '{value[:200]}'. Supported values are: {listed}.")


def too_large(message: str, param: str | None = None) -> ApiError:
    """More bytes than allowed; the message names the limit."""
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, code="request_too_large", param=param)


def conflict(message: str, *, code: str | None = None) -> ApiError:
    """What no repetition of the request would change."""
    return ApiError(HTTPStatus.CONFLICT, message, code=code, headers=NO_RETRY)


def too_many_requests(message: str, retry_after: float, *, code: str = "rate_limit_exceeded") -> ApiError:
    """Over a rate; again after so many seconds."""
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        message,
        code=code,
        kind=RATE_LIMIT,
        headers={"retry-after": str(max(1, round(retry_after)))},
    )


def unavailable(message: str, retry_after: float = 5) -> ApiError:
    """The storage or the Kubernetes API is away; the same request may succeed later."""
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        message,
        code="service_unavailable",
        kind=SERVER_ERROR,
        headers={"retry-after": str(max(1, round(retry_after)))},
    )


_LONGEST_ID: Final = 100


def shown_id(value: str) -> str:
    """An id that a client sent, for a message: cut, and without what isn't printable."""
    text = value if len(value) <= _LONGEST_ID else value[:_LONGEST_ID] + "…"
    return text if text.isprintable() else text.encode("unicode_escape").decode()
