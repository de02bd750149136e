"""The routes of /v1/files."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from batchwright.gateway.context import Gateway
from batchwright.gateway.files import content, upload
from batchwright.gateway.files.deletion import delete_file
from batchwright.gateway.files.finding import find_file
from batchwright.gateway.files.form import LONGEST_SECONDS, SHORTEST_SECONDS
from batchwright.gateway.files.listing import MOST, FileQuery, Order, page_of
from batchwright.gateway.files.rendering import FileDeleted, FileList, FileObject, file_list, file_object
from batchwright.gateway.files.request_body import EarlyError
from batchwright.gateway.http.dependencies import authenticated
from batchwright.gateway.http.error_handlers import as_api_error
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.file_record import FileRecord

_FORM: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["purpose", "file"],
                    "properties": {
                        "purpose": {"type": "string", "enum": ["batch"]},
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "UTF-8 text, one request a line. The parts may come in any order.",
                        },
                        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
                        "expires_after[seconds]": {
                            "type": "integer",
                            "minimum": SHORTEST_SECONDS,
                            "maximum": LONGEST_SECONDS,
                        },
                    },
                    "dependentRequired": {
                        "expires_after[anchor]": ["expires_after[seconds]"],
                        "expires_after[seconds]": ["expires_after[anchor]"],
                    },
                }
            }
        },
    }
}
_BYTES: Final[dict[str, Any]] = {content.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_CONTENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The file's bytes.", "content": _BYTES},
    206: {"description": "The range of them that the header Range asks for.", "content": _BYTES},
}


def router(gateway: Gateway) -> APIRouter:
    """/v1/files and what is below it."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        await upload.all_ended()

    routes = APIRouter(tags=["files"], lifespan=lifespan)
    may_create = Depends(authenticated(gateway, "create"))
    may_get = Depends(authenticated(gateway, "get"))
    may_list = Depends(authenticated(gateway, "list"))
    may_delete = Depends(authenticated(gateway, "delete"))

    @routes.post("/v1/files/", include_in_schema=False, response_model=FileObject)
    @routes.post("/v1/files", response_model=FileObject, summary="Upload a file", openapi_extra=_FORM)
    async def create(request: Request, principal: Annotated[Principal, may_create]) -> FileObject | Response:
        try:
            record = await upload.receive(gateway, principal, request)
        except Exception as error:
            return EarlyError(as_api_error(request, error))
        request.state.object_id = record.id
        return file_object(record)

    @routes.get("/v1/files/", include_in_schema=False)
    @routes.get("/v1/files", summary="List files")
    def list_files(
        principal: Annotated[Principal, may_list],
        after: Annotated[str | None, Query(description="Id of the last file of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
        order: Annotated[Order, Query(description="Of creation; `desc` is the newest first.")] = "desc",
        purpose: Annotated[str | None, Query(description="`batch` or `batch_output`; absent: all.")] = None,
    ) -> FileList:
        page = page_of(gateway, principal, FileQuery(after or None, limit, order, purpose or None))
        return file_list(page.records, has_more=page.has_more)

    @routes.get("/v1/files/{file_id}", summary="Look at a file")
    def retrieve(file_id: str, request: Request, principal: Annotated[Principal, may_get]) -> FileObject:
        return file_object(_found(request, principal, file_id))

    @routes.get(
        "/v1/files/{file_id}/content", summary="Read a file's bytes", response_class=Response, responses=_CONTENT
    )
    async def read(file_id: str, request: Request, principal: Annotated[Principal, may_get]) -> Response:
        record = await run_in_threadpool(_found, request, principal, file_id)
        return await content.download(gateway, record, request.headers)

    @routes.head("/v1/files/{file_id}/content", include_in_schema=False)
    def look(file_id: str, request: Request, principal: Annotated[Principal, may_get]) -> Response:
        return content.look(gateway, _found(request, principal, file_id), request.headers)

    @routes.delete("/v1/files/{file_id}", summary="Delete a file")
    def delete(file_id: str, request: Request, principal: Annotated[Principal, may_delete]) -> FileDeleted:
        stored = find_file(gateway, principal, file_id)
        request.state.object_id = file_id
        delete_file(gateway, stored)
        return FileDeleted(id=file_id, object="file", deleted=True)

    def _found(request: Request, principal: Principal, file_id: str) -> FileRecord:
        record = find_file(gateway, principal, file_id).record
        request.state.object_id = file_id
        return record

    return routes
