"""`/v1/batches`, as OpenAI's clients know it."""

from typing import Annotated, Final, get_args

from fastapi import APIRouter, Depends, Query, Request

from batchwright.gateway import errors
from batchwright.gateway.batches import schema
from batchwright.gateway.batches.answer import BatchJSON
from batchwright.gateway.batches.cancelling import cancel
from batchwright.gateway.batches.creation import create_batch
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.finding import find_batch
from batchwright.gateway.batches.listing import list_batches
from batchwright.gateway.batches.rendering import batch_of
from batchwright.gateway.context import Gateway
from batchwright.gateway.http.dependencies import IdempotencyKey, authenticated, note_batch
from batchwright.gateway.http.json_body import documented, json_body
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI, Status

DEFAULT_LIMIT: Final = 20
MOST: Final = 100


def router(gateway: Gateway) -> APIRouter:
    """Create, list, retrieve, cancel."""
    routes = APIRouter(tags=["batches"], default_response_class=BatchJSON)

    @routes.post(
        "/v1/batches",
        response_model=schema.Batch,
        summary="Create a batch",
        openapi_extra=documented(schema.CreateBatch),
    )
    @routes.post("/v1/batches/", include_in_schema=False, response_model=None)
    def create(
        request: Request,
        principal: Annotated[Principal, Depends(authenticated(gateway, "create"))],
        asked: Annotated[schema.CreateBatch, Depends(json_body(schema.CreateBatch))],
        key: IdempotencyKey = None,
    ) -> BatchJSON:
        record, state = create_batch(gateway, principal, asked, key)
        note_batch(request, record.id)
        return BatchJSON(batch_of(record, state))

    @routes.get("/v1/batches", response_model=schema.BatchList, summary="List batches, the newest first")
    @routes.get("/v1/batches/", include_in_schema=False, response_model=None)
    def list_(
        principal: Annotated[Principal, Depends(authenticated(gateway, "list"))],
        after: Annotated[str | None, Query(description="Id of the last batch of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = DEFAULT_LIMIT,
        status: Annotated[str | None, Query(description="Only batches in this state; beyond OpenAI's API.")] = None,
    ) -> BatchJSON:
        page = list_batches(gateway, principal, limit=limit, after=after or None, status=_status(status), face=OPENAI)
        data = [batch_of(stored.record, state) for stored, state in page.batches]
        return BatchJSON(
            {
                "object": "list",
                "data": data,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
                "has_more": page.has_more,
            }
        )

    @routes.get("/v1/batches/{batch_id}", response_model=schema.Batch, summary="Retrieve a batch")
    @routes.get("/v1/batches/{batch_id}/", include_in_schema=False, response_model=None)
    def retrieve(
        request: Request, batch_id: str, principal: Annotated[Principal, Depends(authenticated(gateway, "get"))]
    ) -> BatchJSON:
        note_batch(request, batch_id)
        stored, state = current(gateway, find_batch(gateway, principal, batch_id, face=OPENAI))
        return BatchJSON(batch_of(stored.record, state))

    @routes.post("/v1/batches/{batch_id}/cancel", response_model=schema.Batch, summary="Cancel a batch")
    @routes.post("/v1/batches/{batch_id}/cancel/", include_in_schema=False, response_model=None)
    def cancel_(
        request: Request, batch_id: str, principal: Annotated[Principal, Depends(authenticated(gateway, "patch"))]
    ) -> BatchJSON:
        note_batch(request, batch_id)
        stored, state = cancel(gateway, find_batch(gateway, principal, batch_id, face=OPENAI))
        return BatchJSON(batch_of(stored.record, state))

    return routes


def _status(text: str | None) -> Status | None:
    known: tuple[Status, ...] = get_args(Status)
    if text is None:
        return None
    for status in known:
        if status == text:
            return status
    raise errors.not_one_of("status", text, known)
