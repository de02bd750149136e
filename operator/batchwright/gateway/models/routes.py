"""`/v1/models`: the catalogue, be it of one model; without a catalogue what the default server says itself."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends

from batchwright.gateway import errors
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.dependencies import authenticated, namespace_of
from batchwright.gateway.models.listing import ModelList, ModelObject, models_of
from batchwright.gateway.models.server_list import fetch_models
from batchwright.gateway.principal import Principal

_SERVER_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    502: {"description": "There is no catalogue, and the model server's own answer is no list of models."},
}


def router(gateway: Gateway) -> APIRouter:
    """The list, and one model of it."""
    routes = APIRouter(prefix="/v1/models", tags=["models"], responses=_SERVER_ERRORS)
    Asker = Annotated[Principal, Depends(authenticated(gateway, "list"))]  # noqa: N806

    @routes.get("/", include_in_schema=False, response_model_exclude_unset=True)
    @routes.get("", summary="List models", response_model_exclude_unset=True)
    def list_models(principal: Asker) -> ModelList:
        return ModelList(object="list", data=_models(gateway, principal))

    @routes.get("/{model:path}", summary="Retrieve a model", response_model_exclude_unset=True)
    def retrieve_model(model: str, principal: Asker) -> ModelObject:
        for found in _models(gateway, principal):
            if found.id == model:
                return found
        message = f"The model '{errors.shown_id(model)}' does not exist."
        raise ApiError(HTTPStatus.NOT_FOUND, message, code="model_not_found", param="model")

    return routes


def _models(gateway: Gateway, principal: Principal) -> list[ModelObject]:
    catalogue = gateway.catalogue()
    if catalogue is not None:
        return models_of(catalogue)
    server = gateway.settings.default_server
    if server is None or (server.url is None and server.service is None):
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "This gateway knows no list of models: it has no catalogue, and batches go to the operator's own model"
            " server. Name the model in the requests of a batch; an administrator can set a catalogue.",
            code="no_model_list",
        )
    namespace = principal.namespace or "" if server.url is not None else namespace_of(principal)
    return fetch_models(server, namespace)
