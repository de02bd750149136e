"""What the server refuses, in vLLM's error bodies, and what a switch text gets wrong."""

from http import HTTPStatus
from typing import Any


class SwitchError(ValueError):
    """A switch that cannot be understood; the message names it and what it should be."""


class ApiError(Exception):
    """An answer that is an error: status and body as vLLM sends them."""

    def __init__(self, status: int, body: dict[str, Any], *, retry_after: str | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.retry_after = retry_after


def phrase(status: int) -> str:
    """Return the status's standard phrase, or "Error" for one that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def error_body(status: int, message: str, *, kind: str | None = None, param: str | None = None) -> dict[str, Any]:
    """Build vLLM's error body: message, type, param and a numeric code."""
    return {"error": {"message": message, "type": kind or phrase(status), "param": param, "code": status}}


def unauthorized() -> ApiError:
    # vLLM's middleware answers before its error handlers and so has another shape.
    return ApiError(401, {"error": "Unauthorized"})


def invalid_json(position: int, reason: str) -> ApiError:
    location = f"body.{position}"
    detail = {
        "type": "json_invalid",
        "loc": location,
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": reason},
    }
    return _validation(detail, location)


def invalid_field(name: str, kind: str, message: str) -> ApiError:
    """A field that is missing (`kind` "missing") or of the wrong type, as pydantic's errors say it."""
    location = f"body.{name}" if name else "body"
    return _validation({"type": kind, "loc": location, "msg": message}, location)


def bad_request(message: str, *, param: str | None = None) -> ApiError:
    return ApiError(400, error_body(400, message, kind="BadRequestError", param=param))


def unsupported_media_type() -> ApiError:
    message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return ApiError(400, error_body(400, message))


def model_not_found(model: str, served: tuple[str, ...]) -> ApiError:
    message = f"The model `{model}` does not exist. Valid aliases: {', '.join(served)}."
    return ApiError(404, error_body(404, message, kind="NotFoundError", param="model"))


def not_found() -> ApiError:
    return ApiError(404, error_body(404, "Not Found"))


def method_not_allowed() -> ApiError:
    return ApiError(405, error_body(405, "Method Not Allowed"))


def too_large(limit: int) -> ApiError:
    return ApiError(413, error_body(413, f"The body is larger than {limit} bytes."))


def queue_full(status: int, retry_after: str | None) -> ApiError:
    message = (
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance."
    )
    return ApiError(status, error_body(status, message), retry_after=retry_after)


def _validation(detail: dict[str, Any], location: str) -> ApiError:
    return ApiError(400, error_body(400, f"1 validation error:\n  {detail}", param=location))
