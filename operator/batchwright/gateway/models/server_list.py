"""The list of models of the default server, asked for by HTTP; bounded in time and size.

A server's API key and its private certificates lie in the tenants' namespaces, for workers. The gateway has neither, so
a server that wants a key for its list refuses: then a catalogue is what helps.
"""

import functools
import ssl
import time
from http import HTTPStatus
from typing import Final

import httpx
import msgspec
from pydantic import ValidationError

from batchwright.api.batchjob import Server
from batchwright.api.defaults import DEFAULT_SERVICE_PORT
from batchwright.batchfile.undecodable import UNDECODABLE
from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.models.listing import CREATED, ModelObject

TIMEOUT: Final = httpx.Timeout(5.0)
TOTAL_SECONDS: Final = 10.0
MOST_BYTES: Final = 1 << 20
REMEDY: Final = "An administrator can give the gateway a catalogue of models instead."


def fetch_models(server: Server, namespace: str) -> list[ModelObject]:
    """What the server says, each model with the fields that OpenAI's clients need.

    namespace: where a server that is given as a Service is.

    Raises:
        ApiError: 503 where it can't be reached or is busy, 502 where its answer is no list of models.
    """
    body = _get(f"{_address(server, namespace)}/v1/models", dict(server.headers or {}))
    try:
        listed = msgspec.json.decode(body)["data"]
        return [
            ModelObject.model_validate({"object": "model", "created": CREATED, "owned_by": "", **one}) for one in listed
        ]
    except (*UNDECODABLE, TypeError, KeyError, ValidationError):
        raise _bad("answered with no list of models") from None


def _address(server: Server, namespace: str) -> str:
    if server.service is not None:
        return f"http://{server.service.name}.{namespace}.svc:{server.service.port or DEFAULT_SERVICE_PORT}"
    return str(server.url).rstrip("/")


def _get(url: str, headers: dict[str, str]) -> bytes:
    end = time.monotonic() + TOTAL_SECONDS
    body = bytearray()
    try:
        with (
            httpx.Client(verify=_certificates(), timeout=TIMEOUT, trust_env=False, headers=headers) as client,
            client.stream("GET", url, follow_redirects=False) as answer,
        ):
            _check(answer.status_code)
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _bad(f"answered with more than {MOST_BYTES} bytes")
                if time.monotonic() > end:
                    raise errors.unavailable("The model server is too slow to list its models. Try again.")
    except httpx.DecodingError:
        raise _bad("answered with a broken encoding") from None
    except httpx.HTTPError:
        raise errors.unavailable(f"The model server can't be reached to list its models. {REMEDY}") from None
    return bytes(body)


def _check(status: int) -> None:
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        raise errors.unavailable("The model server is busy or starting. Try again.")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise _bad("wants an API key for its list, which only workers have")
    if status != HTTPStatus.OK:
        raise _bad(f"answered {status}")


def _bad(what: str) -> ApiError:
    message = f"The model server {what}. {REMEDY}"
    return ApiError(HTTPStatus.BAD_GATEWAY, message, code="bad_gateway", kind=errors.SERVER_ERROR)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Reading the public authorities takes a while: once."""
    return httpx.create_ssl_context(trust_env=False)
