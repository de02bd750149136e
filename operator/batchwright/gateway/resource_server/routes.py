"""`/resource_server/…`: path-based batches, and a cancel, which the services that began this form lack."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request

from batchwright.gateway.batches.cancelling import cancel
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.finding import find_batch
from batchwright.gateway.batches.listing import list_batches
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.dependencies import IdempotencyKey, authenticated, note_batch
from batchwright.gateway.http.json_body import documented, json_body
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import PATHS
from batchwright.gateway.resource_server import rendering
from batchwright.gateway.resource_server.creation import CreateBatch, create_batch
from batchwright.gateway.resource_server.rendering import BatchResult, CreatedBatch, ListedBatch, PathStatus

LISTED: Final = 10_000
"""Batches of the list, the newest: clients know no pages."""


def router(gateway: Gateway) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/resource_server", tags=["path-based batches"])
    may_get, may_list, may_create, may_cancel = (
        Depends(authenticated(gateway, verb)) for verb in ("get", "list", "create", "patch")
    )

    @routes.post("/{cluster}/{framework}/v1/batches/", include_in_schema=False)
    @routes.post(
        "/{cluster}/{framework}/v1/batches",
        summary="Create a batch from a file on the shared volume, or an object",
        openapi_extra=documented(CreateBatch),
    )
    def create(
        cluster: str,
        framework: str,
        request: Request,
        *,
        principal: Annotated[Principal, may_create],
        asked: Annotated[CreateBatch, Depends(json_body(CreateBatch))],
        key: IdempotencyKey = None,
    ) -> CreatedBatch:
        record, state = create_batch(gateway, principal, asked, cluster=cluster, framework=framework, key=key)
        note_batch(request, record.id)
        return rendering.created(record, state)

    @routes.get("/v1/batches/", include_in_schema=False)
    @routes.get("/v1/batches", summary="List batches, the newest first")
    def list_(
        principal: Annotated[Principal, may_list],
        status: Annotated[PathStatus | None, Query(description="Only those of this state.")] = None,
    ) -> list[ListedBatch]:
        newest = list_batches(gateway, principal, limit=LISTED, face=PATHS).batches
        shown = (rendering.listed(stored.record, state) for stored, state in newest)
        return [batch for batch in shown if status in (None, batch.status)]

    @routes.get("/v1/batches/{batch_id}/", include_in_schema=False)
    @routes.get("/v1/batches/{batch_id}", summary="The state of a batch, as a bare JSON string")
    def get_status(batch_id: str, principal: Annotated[Principal, may_get]) -> PathStatus:
        _, state = current(gateway, find_batch(gateway, principal, batch_id, face=PATHS))
        return rendering.STATUSES[state.status]

    @routes.get("/v1/batches/{batch_id}/result/", include_in_schema=False)
    @routes.get(
        "/v1/batches/{batch_id}/result",
        summary="Files and metrics of a completed batch; of a failed one its error message, as a bare JSON string",
    )
    def get_result(batch_id: str, principal: Annotated[Principal, may_get]) -> BatchResult | str:
        stored, state = current(gateway, find_batch(gateway, principal, batch_id, face=PATHS))
        found = rendering.result(stored.record, state)
        if found is None:
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                f"The batch is not completed yet, it is {rendering.STATUSES[state.status]}: its result is not ready.",
                code="batch_not_completed",
            )
        return found

    @routes.post("/v1/batches/{batch_id}/cancel/", include_in_schema=False)
    @routes.post("/v1/batches/{batch_id}/cancel", summary="Cancel a batch; what is finished stays")
    def cancel_batch(batch_id: str, request: Request, principal: Annotated[Principal, may_cancel]) -> CreatedBatch:
        note_batch(request, batch_id)
        stored, state = cancel(gateway, find_batch(gateway, principal, batch_id, face=PATHS))
        return rendering.created(stored.record, state)

    return routes
