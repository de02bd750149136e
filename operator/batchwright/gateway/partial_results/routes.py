"""`GET /v1/batches/{batch_id}/results`: lines that are finished by now."""

import json
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field

from batchwright.gateway import errors, ids
from batchwright.gateway.batches.current import current
from batchwright.gateway.batches.finding import find_batch
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.dependencies import authenticated, note_batch
from batchwright.gateway.http.streaming import sent
from batchwright.gateway.partial_results.cursor import Cursor, decode
from batchwright.gateway.partial_results.page import Page
from batchwright.gateway.partial_results.shards import Committed, as_published, as_written, committed
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import OPENAI, BatchRecord, BatchState
from batchwright.gateway.shard_records import ShardRecords
from batchwright.storage.errors import NotFound

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000
KEPT: Final = 20_000
"""Shard records kept in memory."""


class Results(BaseModel):
    """Finished lines, as they will stand in the output and error files."""

    object: str = Field(description="Always `list`.")
    data: list[dict[str, Any]] = Field(description="Lines of the output file and of the error file.")
    last_id: str = Field(description="Send it as `after` to go on from here, now or later.")
    has_more: bool = Field(description="Whether more lines are finished by now.")
    ended: bool = Field(description="Whether the batch is over: nothing more will come after has_more is false.")


def router(gateway: Gateway) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["batches"])
    shard_records = ShardRecords(KEPT)

    @routes.get(
        "/v1/batches/{batch_id}/results",
        response_model=Results,
        summary="Lines that are finished by now, while the batch runs and after (beyond OpenAI)",
    )
    def results(
        batch_id: str,
        request: Request,
        principal: Annotated[Principal, Depends(authenticated(gateway, "get"))],
        after: Annotated[str | None, Query(max_length=16_000, description="`last_id` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Lines at most.")] = DEFAULT_LIMIT,
    ) -> Response:
        note_batch(request, batch_id)
        stored, state = current(gateway, find_batch(gateway, principal, batch_id, face=OPENAI))
        try:
            cursor = decode(after) if after else Cursor()
            first, rest = _begun(gateway, shard_records, stored.record, state, cursor=cursor, limit=limit)
        except ValueError as error:
            raise errors.invalid_value(
                "after", "Invalid value for 'after': send `last_id` of an earlier page."
            ) from error
        return StreamingResponse(sent(first, rest), media_type="application/json")

    return routes


def _begun(
    gateway: Gateway,
    shard_records: ShardRecords,
    record: BatchRecord,
    state: BatchState,
    *,
    cursor: Cursor,
    limit: int,
) -> tuple[bytes, Iterator[bytes]]:
    """The beginning of the answer, once something was read for it, and the rest.

    A merge may publish, and then delete the shards' own files, between any two steps: what is gone from there has
    been published before.
    """
    folder, batchjob = gateway.tenant(record.namespace), ids.batchjob_name(record.id)

    def of(shards: Iterable[Committed]) -> tuple[bytes, Iterator[bytes]]:
        pieces = _body(Page(folder.store, shards, cursor, limit), ended=state.ended)
        return next(pieces), pieces

    if state.fingerprint is None:
        return of(())
    records = committed(shard_records, folder, batchjob, state.fingerprint)
    if not state.ended:
        try:
            return of(as_written(records))
        except NotFound:
            records = committed(shard_records, folder, batchjob, state.fingerprint)
    try:
        return of(as_published(folder, batchjob, records))
    except NotFound as error:
        raise ApiError(
            HTTPStatus.NOT_FOUND, "The results of this batch were deleted, or have expired.", code="results_deleted"
        ) from error


def _body(page: Page, *, ended: bool) -> Iterator[bytes]:
    """The lines go out as they stand."""
    opening = b'{"object": "list", "data": ['
    for piece in page.pieces():
        yield opening + piece
        opening = b""
    rest = {"last_id": page.after.encoded(), "has_more": page.has_more, "ended": ended}
    yield opening + b"], " + json.dumps(rest)[1:].encode()
