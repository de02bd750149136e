"""The application: every part's routes in one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel

from batchwright.gateway.batches import routes as batches
from batchwright.gateway.context import Gateway
from batchwright.gateway.files import routes as files
from batchwright.gateway.http import error_handlers, health
from batchwright.gateway.http.body_limit import BodyLimit
from batchwright.gateway.http.dependencies import not_overloaded
from batchwright.gateway.http.middleware import Audit, RequestMiddleware
from batchwright.gateway.http.root_path import RootPath
from batchwright.gateway.models import routes as models
from batchwright.gateway.page import routes as page
from batchwright.gateway.partial_results import routes as partial_results
from batchwright.gateway.resource_server import routes as resource_server

DESCRIPTION: Final = """\
OpenAI's Files and Batches API, and path-based batches, over BatchJobs in a Kubernetes cluster.
Send an API key of this gateway, or a token of the cluster, as `Authorization: Bearer …`.
"""

API: Final[tuple[Callable[[Gateway], APIRouter], ...]] = (
    files.router,
    batches.router,
    resource_server.router,
    models.router,
    partial_results.router,
)


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorDetail


_UNUSED_STATUS: Final = "422"
_UNUSED_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in {
        400: "The request can't be what it is; the message says why.",
        401: "No key, or one that is unknown.",
        403: "The key or token may not do this.",
        404: "There is no such thing, or it is not yours.",
        409: "Not in its state.",
        408: "The body did not come in whole in time.",
        413: "Too large; the message names the limit.",
        429: "Too many requests, or too many active batches; see Retry-After.",
        431: "The request's headers are too large.",
        500: "The gateway failed.",
        503: "Storage or cluster can't be reached at the moment; see Retry-After.",
    }.items()
}


class _Application(FastAPI):
    """FastAPI, whose document tells of no answer that never comes: what it calls a 422 is a 400 here."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            for operations in document["paths"].values():
                for operation in operations.values():
                    operation["responses"].pop(_UNUSED_STATUS, None)
            for name in _UNUSED_SCHEMAS:
                document["components"]["schemas"].pop(name, None)
        return super().openapi()


def create_app(
    gateway: Gateway, audit: Audit, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None
) -> FastAPI:
    """The application, ready to be served."""
    app = _Application(
        title="Batchwright gateway",
        version=version("batchwright"),
        description=DESCRIPTION,
        redirect_slashes=False,
        lifespan=lifespan,
        responses=ERRORS,
    )
    error_handlers.install(app)
    app.include_router(health.router(gateway))  # probes are answered also when there are too many connections
    for part in API:
        app.include_router(part(gateway), dependencies=[Depends(not_overloaded)])
    app.include_router(page.router(gateway))
    app.add_middleware(RootPath, root_path=gateway.settings.root_path)
    app.add_middleware(BodyLimit)
    # The outermost: what the others refuse is counted and logged too.
    app.add_middleware(RequestMiddleware, audit=audit)
    return app
