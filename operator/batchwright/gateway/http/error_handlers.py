"""Every error as `{"error": {…}}`: ours, FastAPI's, the storage's, the Kubernetes API's, and what nobody foresaw."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.middleware import REQUEST_ID
from batchwright.gateway.records.record_store import Unreadable
from batchwright.kube.errors import KubernetesError, Refused, lacks_right
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

_MISSING: Final = "missing"
_TYPES: Final = {
    "int": "an integer",
    "string": "a string",
    "dict": "an object",
    "bool": "a boolean",
    "list": "an array",
    "model": "an object",
    "float": "a number",
}


def install(app: FastAPI) -> None:
    """Make an app answer so."""
    kinds = (ApiError, RequestValidationError, HTTPException, StorageError, KubernetesError, Unreadable, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, _handle)


def answer(error: ApiError) -> JSONResponse:
    """The answer that an error is."""
    return JSONResponse(error.body(), error.status, error.headers)


def from_validation(problems: Sequence[Any]) -> ApiError:
    """The first problem that pydantic found, in OpenAI's words."""
    problem = problems[0]
    name = ".".join(str(step) for step in problem["loc"][1:]) or "body"
    kind = str(problem["type"])
    if kind == "json_invalid":
        return ApiError(HTTPStatus.BAD_REQUEST, "The request body is not valid JSON.", code="invalid_json")
    if kind == _MISSING:
        return errors.missing_parameter(name)
    if kind == "extra_forbidden":
        return ApiError(HTTPStatus.BAD_REQUEST, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    if kind.endswith(("_type", "_parsing")) and (expected := _TYPES.get(kind.rpartition("_")[0])):
        return errors.invalid_type(name, expected)
    return errors.invalid_value(name, f"Invalid value for '{name}': {problem['msg']}.")


def as_api_error(request: Request, error: Exception) -> ApiError:
    """What any exception of a handler is to a client. What a client can't know of is logged here, once."""
    match error:
        case ApiError():
            return error
        case RequestValidationError():
            return from_validation(error.errors())
        case HTTPException():
            return _from_http(request, error)
        case StorageError() | Unreadable():
            logger.error("storage, for request %s: %s", request_id(request), error)
            return _from_storage(error)
        case KubernetesError():
            logger.error("Kubernetes, for request %s: %s", request_id(request), error)
            return _from_kubernetes(error)
    logger.error("request %s failed", request_id(request), exc_info=error)
    return _failure("The gateway failed on this request. Its log has more, under the request's id.", "internal_error")


async def _handle(request: Request, error: Exception) -> JSONResponse:
    response = answer(as_api_error(request, error))
    # What nobody foresaw is answered outside of the middleware that gives the id to all others.
    response.headers[REQUEST_ID] = request_id(request)
    return response


def _from_http(request: Request, error: HTTPException) -> ApiError:
    """What the framework itself refuses: an unknown path, a method that a path doesn't have."""
    status = error.status_code
    if status == HTTPStatus.NOT_FOUND:
        message = f"Invalid URL ({request.method} {request.url.path[:200]})"
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"Not allowed to {request.method} on {request.url.path[:200]}."
    else:
        message = str(error.detail)
    return ApiError(status, message, headers=error.headers)


def _from_storage(error: StorageError | Unreadable) -> ApiError:
    if isinstance(error, Unreadable):
        record = f"The gateway's record of '{error.identity}'"
        return _failure(f"{record} can't be read. An administrator finds more in its log.", "record_unreadable")
    if error.retryable:
        return errors.unavailable("The storage is not available at the moment. Try again.")
    message = f"The gateway can't use its storage: {error.describe()}. An administrator finds more in its log."
    return _failure(message, "storage_error")


def _from_kubernetes(error: KubernetesError) -> ApiError:
    if lacks_right(error):
        message = "The gateway isn't allowed to do this in the cluster. An administrator finds more in its log."
        return errors.unavailable(message, errors.ADMINISTRATOR_SECONDS)
    if isinstance(error, Refused):
        message = "The cluster refused what the gateway asked for. An administrator finds more in its log."
        return _failure(message, "cluster_refused")
    return errors.unavailable("The Kubernetes API is not available at the moment. Try again.")


def _failure(message: str, code: str) -> ApiError:
    """What neither the client nor time mends."""
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, message, code=code, kind=errors.SERVER_ERROR)


def request_id(request: Request) -> str:
    """The id that a request is logged and answered under."""
    return str(getattr(request.state, "request_id", ""))
