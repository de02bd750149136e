"""The page's routes, put together. None of them is part of the API."""

from http import HTTPStatus

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from batchwright.gateway.context import Gateway
from batchwright.gateway.http.dependencies import not_overloaded
from batchwright.gateway.page import assets, changing, reading, signing
from batchwright.gateway.page.batch_list import Views
from batchwright.gateway.page.context import Page
from batchwright.gateway.page.page_route import page_route
from batchwright.gateway.page.run_records import RunRecords
from batchwright.gateway.page.templating import UI, Templates


def router(gateway: Gateway) -> APIRouter:
    """`/`, and what is below `/ui`."""
    files = assets.packaged()
    templates = Templates(files, gateway.settings.root_path)
    page = Page(gateway, files, templates, Views(gateway), RunRecords())
    routes = APIRouter(route_class=page_route(templates), include_in_schema=False)

    @routes.get("/")
    @routes.get(UI)
    def start() -> Response:
        return RedirectResponse(templates.link("/"), HTTPStatus.TEMPORARY_REDIRECT)

    @routes.get(f"{UI}/static/{{name}}")
    def static(name: str) -> Response:
        asset = files.find(name)
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(asset.content, media_type=asset.media_type, headers={"cache-control": assets.FOREVER})

    # What an error's page is made of stays there when there are too many connections.
    pages = APIRouter(route_class=page_route(templates), dependencies=[Depends(not_overloaded)])
    for part in (signing, reading, changing):
        part.add_routes(page, pages)
    routes.include_router(pages)

    @routes.get(f"{UI}/{{path:path}}")
    def nothing(request: Request) -> Response:
        raise HTTPException(HTTPStatus.NOT_FOUND)

    return routes
