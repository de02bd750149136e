"""What the server refuses, in vLLM's error bodies, and what a switch text gets wrong."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

MAX_ECHOED = 200
"""Characters of a value at fault that its error repeats."""


class SwitchError(ValueError):
    """A switch that cannot be understood; the message names it and what it should be."""


class ApiError(Exception):
    """An answer that is an error: status, body and headers as vLLM sends them."""

    def __init__(self, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.headers = headers or {}


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
    detail = {"type": "json_invalid", "loc": location, "msg": "JSON decode error", "input": _echoed({})}
    return _validation(detail | {"ctx": {"error": reason}}, location)


def unreadable_body() -> ApiError:
    """A body that is no text, or nested too deeply: the web framework answers, in its own shape."""
    return ApiError(400, {"detail": "There was an error parsing the body"})


def invalid_field(name: str, kind: str, message: str, value: Any) -> ApiError:
    """A field of the wrong type, as pydantic's errors say it; an empty name is the body itself."""
    location = f"body.{name}" if name else "body"
    return _validation({"type": kind, "loc": location, "msg": message, "input": _echoed(value)}, location)


def missing_field(name: str, body: Any) -> ApiError:
    """A field that must be there; an empty name is the body itself."""
    return invalid_field(name, "missing", "Field required", body)


def bad_request(message: str, *, param: str | None = None, value: Any = None) -> ApiError:
    """A value that is refused; the message ends in the parameter and the value, as vLLM's do."""
    named = {"parameter": param, "value": value}
    told = ", ".join(f"{name}={what}" for name, what in named.items() if what is not None)
    text = f"{message} ({told})" if told else message
    return ApiError(400, error_body(400, text, kind="BadRequestError", param=param))


def too_long(longest: int) -> ApiError:
    """A prompt of more tokens than the model can hold. vLLM counts no further than one too many."""
    message = (
        f"This model's maximum context length is {longest} tokens. However, your prompt contains at least"
        f" {longest + 1} input tokens, which exceeds this limit even without any output tokens."
        " Please reduce the length of the input prompt."
    )
    return bad_request(message, param="input_tokens", value=longest + 1)


def unsupported_media_type() -> ApiError:
    message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return ApiError(400, error_body(400, message))


def model_not_found(model: str, served: tuple[str, ...]) -> ApiError:
    message = f"The model `{model}` does not exist. Valid aliases: {', '.join(served)}."
    return ApiError(404, error_body(404, message, kind="NotFoundError", param="model"))


def pooling_model_not_found(model: str) -> ApiError:
    """The endpoints that measure texts say less of it."""
    return ApiError(404, error_body(404, f"The model `{model}` does not exist.", kind="NotFoundError"))


def no_store(param: str, status: int, message: str) -> ApiError:
    """What needs responses that were kept, by a server that keeps none."""
    return ApiError(status, error_body(status, message, kind="invalid_request_error", param=param))


def not_found() -> ApiError:
    """The web framework's own answer to a path without a route."""
    return ApiError(404, {"detail": "Not Found"})


def method_not_allowed(*allowed: str) -> ApiError:
    """The web framework's own answer to a method that a path has not."""
    return ApiError(405, {"detail": "Method Not Allowed"}, {"Allow": ", ".join(allowed)})


def too_large(limit: int) -> ApiError:
    return ApiError(413, error_body(413, f"The body is larger than {limit} bytes."))


def queue_full(status: int, retry_after: str | None) -> ApiError:
    message = (
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance."
    )
    return ApiError(status, error_body(status, message), {"Retry-After": retry_after} if retry_after else None)


def shutting_down() -> ApiError:
    """What a vLLM of 0.32 answers to all that comes while it shuts down and lets what it has in flight end."""
    return ApiError(500, error_body(500, "cannot schedule new futures after shutdown"))


def _validation(detail: dict[str, Any], location: str) -> ApiError:
    return ApiError(400, error_body(400, f"1 validation error:\n  {detail}", param=location))


def _echoed(value: Any) -> str:
    """A value as vLLM repeats it in an error: containers by their size alone, texts cut."""
    if isinstance(value, list | dict):
        return f"<{type(value).__name__} of {len(value)} items>"
    text = str(value)
    return text if len(text) <= MAX_ECHOED else f"{text[:MAX_ECHOED]}...[truncated]"
