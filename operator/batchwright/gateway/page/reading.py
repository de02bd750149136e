"""The pages that show something: the list, one batch, and what asks whether to cancel it."""

from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from batchwright.api.batchjob import Endpoint
from batchwright.gateway import ids
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.finding import find_batch
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files import content
from batchwright.gateway.files.finding import find_file
from batchwright.gateway.page import throughput
from batchwright.gateway.page.batch_view import BatchView, any_live
from batchwright.gateway.page.context import Page
from batchwright.gateway.page.page_route import FRAGMENT, PRIVATE
from batchwright.gateway.page.problems import Problem
from batchwright.gateway.page.session import host_of, scheme_of
from batchwright.gateway.page.templating import UI
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI
from batchwright.gateway.records.record_store import Unreadable

LIVE_SECONDS: Final = 2
IDLE_SECONDS: Final = 15
"""A list without a live batch may get one from elsewhere."""


def add_routes(page: Page, routes: APIRouter) -> None:
    """Declare them."""
    may_list = Depends(page.asking("list"))
    may_get = Depends(page.asking("get"))

    @routes.get(f"{UI}/")
    def batches(
        request: Request, principal: Annotated[Principal, may_list], after: Annotated[str, Query()] = ""
    ) -> Response:
        return list_page(page, request, principal, after=after if ids.is_batch_id(after) else "")

    @routes.get(f"{UI}/batches/{{batch_id}}")
    def batch(batch_id: str, request: Request, principal: Annotated[Principal, may_get]) -> Response:
        view = found_view(page, request, principal, batch_id)
        return _live_page(page, request, "batch", title=view.title, principal=principal, **_details(page, view))

    @routes.get(f"{UI}/batches/{{batch_id}}/cancel")
    def confirm(batch_id: str, request: Request, principal: Annotated[Principal, may_get]) -> Response:
        view = found_view(page, request, principal, batch_id)
        text = page.templates.render("cancel.html", title="Cancel a batch", principal=principal, view=view)
        return HTMLResponse(text)

    @routes.get(f"{UI}/files/{{file_id}}/content")
    async def download(file_id: str, request: Request, principal: Annotated[Principal, may_get]) -> Response:
        record = (await run_in_threadpool(find_file, page.gateway, principal, file_id)).record
        request.state.object_id = record.id
        return await content.download(page.gateway, record, request.headers)


def list_page(
    page: Page,
    request: Request,
    principal: Principal,
    *,
    after: str = "",
    problem: Problem | None = None,
    endpoint: str = "",
    status: int = HTTPStatus.OK,
) -> Response:
    """The list, perhaps with what was wrong with an upload. Blocks."""
    gateway = page.gateway
    listed = page.views.listed(principal, after or None)
    catalogue = gateway.catalogue()
    entries = catalogue.with_batch() if catalogue else []
    served = [one for one in Endpoint if any(one in entry.endpoints for entry in entries)] or list(Endpoint)
    limits = gateway.settings.face_limits(principal.namespace or "", OPENAI)
    return _live_page(
        page,
        request,
        "batches",
        status=status,
        title="Batches",
        principal=principal,
        views=listed.views,
        after=after,
        next_after=listed.next_after,
        all_namespaces=principal.namespace is None,
        refresh=LIVE_SECONDS if any_live(listed.views) else 0 if after else IDLE_SECONDS,
        may_create=principal.namespace is not None,
        cannot_create="You see the batches of all namespaces. To start one, show the namespace that it is for.",
        problem=problem,
        endpoints=[one.value for one in served],
        chosen_endpoint=endpoint or served[0].value,
        windows=gateway.settings.completion_windows,
        largest=limits.bytes,
        most_lines=limits.lines,
        base_url=f"{scheme_of(request)}://{host_of(request)}{gateway.settings.root_path}",
        example_model=entries[0].model if entries else "YOUR-MODEL",
    )


def found_view(page: Page, request: Request, principal: Principal, batch_id: str) -> BatchView:
    """One batch as it stands now. Blocks. Raises ApiError (404)."""
    found = find_batch(page.gateway, principal, batch_id, face=None)
    request.state.object_id = found.record.id
    return page.views.view(*current(page.gateway, found))


def _details(page: Page, view: BatchView) -> dict[str, Any]:
    """What one batch's page shows beside its view."""
    record = view.record
    sample = page.runs.sample(page.gateway.tenant(record.namespace), record, view.state, view.now)
    rates = throughput.throughput(sample.spans, live=view.state.status == "in_progress")
    return {
        "view": view,
        "refresh": LIVE_SECONDS if view.live else 0,
        "input_there": _is_there(page, record.namespace, record.input_file_id),
        "rates": rates,
        "drawn": throughput.plot(rates) if rates else None,
        "sample_every": sample.every,
        "width": throughput.WIDTH,
        "height": throughput.HEIGHT,
    }


def _is_there(page: Page, namespace: str, file_id: str | None) -> bool:
    if file_id is None:
        return False
    try:
        find_file(page.gateway, Principal("", namespace), file_id)
    except (ApiError, Unreadable):
        return False
    return True


def _live_page(page: Page, request: Request, name: str, *, status: int = HTTPStatus.OK, **values: Any) -> Response:
    """A whole page, or its live part alone where the page's script asks for it; nothing where that hasn't changed."""
    if FRAGMENT not in request.headers:
        return HTMLResponse(page.templates.render(f"{name}.html", **values), status)
    text = page.templates.render(f"{name}_live.html", **values)
    etag = f'"{sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": PRIVATE, "vary": FRAGMENT}
    if request.headers.get("if-none-match") == etag:
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return HTMLResponse(text, headers=headers)
