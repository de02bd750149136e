"""What the page's forms do: upload and start, cancel, retry."""

import logging
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from batchwright.gateway import errors
from batchwright.gateway.batches.cancelling import cancel
from batchwright.gateway.batches.finding import find_batch
from batchwright.gateway.files.upload import receive
from batchwright.gateway.http.error_handlers import as_api_error
from batchwright.gateway.page.context import Page
from batchwright.gateway.page.forms import drain, fields_before_file
from batchwright.gateway.page.page_route import wants_json
from batchwright.gateway.page.problems import problem_of
from batchwright.gateway.page.reading import list_page
from batchwright.gateway.page.starting import retry_failed, start_batch
from batchwright.gateway.page.templating import UI
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 60.0


def add_routes(page: Page, routes: APIRouter) -> None:
    """Declare them."""
    may_create = Depends(page.asking("create"))
    may_patch = Depends(page.asking("patch"))
    gateway = page.gateway

    def shown(batch: BatchRecord) -> Response:
        return RedirectResponse(page.templates.link(f"/batches/{batch.id}"), HTTPStatus.SEE_OTHER)

    @routes.post(f"{UI}/batches")
    async def upload(request: Request, principal: Annotated[Principal, may_create]) -> Response:
        fields, request = await fields_before_file(request)
        try:
            endpoint = _endpoint_of(fields)
            file = await receive(gateway, principal, request)
            batch = await run_in_threadpool(
                start_batch,
                gateway,
                principal,
                file,
                endpoint=endpoint,
                window=fields.get("completion_window"),
            )
        except Exception as error:
            return await _refused(page, request, principal, fields, error)
        request.state.object_id = batch.id
        if wants_json(request):
            location = page.templates.link(f"/batches/{batch.id}")
            return JSONResponse({"location": location}, HTTPStatus.CREATED, {"location": location})
        return shown(batch)

    @routes.post(f"{UI}/batches/{{batch_id}}/cancel")
    def confirmed(batch_id: str, request: Request, principal: Annotated[Principal, may_patch]) -> Response:
        found = find_batch(gateway, principal, batch_id, face=None)
        request.state.object_id = found.record.id
        stored, _ = cancel(gateway, found)
        return shown(stored.record)

    @routes.post(f"{UI}/batches/{{batch_id}}/retry")
    def retry(batch_id: str, request: Request, principal: Annotated[Principal, may_create]) -> Response:
        found = find_batch(gateway, principal, batch_id, face=OPENAI)
        batch = retry_failed(gateway, principal, found)
        request.state.object_id = batch.id
        return shown(batch)


def _endpoint_of(fields: dict[str, str]) -> str:
    """It must be known before the file streams in. Raises ApiError."""
    if not fields.get("endpoint"):
        raise errors.missing_parameter("endpoint")
    return fields["endpoint"]


async def _refused(
    page: Page, request: Request, principal: Principal, fields: dict[str, str], error: Exception
) -> Response:
    """What was wrong with an upload: to the script, or above the form that was sent."""
    await drain(request, DRAIN_SECONDS)
    shown = as_api_error(request, error)
    if wants_json(request):
        return JSONResponse(shown.body(), shown.status, shown.headers)
    return await run_in_threadpool(
        list_page,
        page,
        request,
        principal,
        problem=problem_of(shown),
        endpoint=fields.get("endpoint", ""),
        status=shown.status,
    )
