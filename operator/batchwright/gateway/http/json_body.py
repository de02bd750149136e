"""A small JSON body, read after its sender is known, whatever content type the client names."""

import copy
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.error_handlers import from_validation

M = TypeVar("M", bound=BaseModel)


def json_body(kind: type[M]) -> Callable[[Request], Awaitable[M]]:
    """A dependency that gives the body as a model. To be named after `authenticated`: FastAPI would read a body of its
    own, of any size, before it asks who sends it.
    """

    async def read(request: Request) -> M:
        return parse(kind, await _read(request))

    return read


def parse(kind: type[M], data: bytes) -> M:
    """A model from JSON. Raises ApiError (400) that names the first field which is wrong."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The request body is not valid JSON.", code="invalid_json") from None
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        raise from_validation([{**problem, "loc": ("body", *problem["loc"])} for problem in problems]) from None


def documented(kind: type[BaseModel]) -> dict[str, Any]:
    """The body for the OpenAPI document: `openapi_extra` of its route."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline(schema, definitions)}}}
    }


async def _read(request: Request) -> bytes:
    """The whole of it: `body_limit` bounds it."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The client went away while it sent its request.") from None


def _inline(value: Any, definitions: dict[str, Any]) -> Any:
    """References of a schema by what they refer to: OpenAPI looks for them elsewhere."""
    if isinstance(value, list):
        return [_inline(part, definitions) for part in value]
    if not isinstance(value, dict):
        return value
    if reference := value.get("$ref"):
        return _inline(copy.deepcopy(definitions[reference.rpartition("/")[2]]), definitions)
    return {name: _inline(part, definitions) for name, part in value.items()}
