"""Creating a batch by OpenAI's route.

What is wrong with the request is a 4xx. What is wrong with the input is found afterwards, as OpenAI does it: the answer
is a batch that is being validated, and it fails then. An input that can't be a batch's at all gets no BatchJob, only a
record with that ending.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from batchwright.api.batchjob import Endpoint, Server
from batchwright.api.duration import parse_duration
from batchwright.gateway import errors, ids
from batchwright.gateway.batches.batchjob import spec_of
from batchwright.gateway.batches.making import missing_input
from batchwright.gateway.batches.once import make_once
from batchwright.gateway.batches.rendering import failed_state
from batchwright.gateway.batches.schema import CreateBatch
from batchwright.gateway.context import Gateway
from batchwright.gateway.files.finding import is_expired
from batchwright.gateway.http.dependencies import namespace_of
from batchwright.gateway.models.choosing import UnknownModel, choose
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import (
    OPENAI,
    BatchError,
    BatchRecord,
    BatchState,
    Ending,
)
from batchwright.gateway.records.file_record import BATCH, FileRecord
from batchwright.gateway.settings import Settings

DEFAULT_WINDOW: Final = "24h"
_ENDPOINTS: Final = tuple(endpoint.value for endpoint in Endpoint)


class _Refused(Exception):  # noqa: N818
    """The input can't be a batch's."""

    def __init__(self, error: BatchError) -> None:
        super().__init__(error)
        self.error = error


def create_batch(
    gateway: Gateway, principal: Principal, request: CreateBatch, key: str | None
) -> tuple[BatchRecord, BatchState]:
    """Make a batch, or find the one that the same request made before.

    key: the client's Idempotency-Key; None where it sent none

    Raises:
        ApiError: what is wrong with the request, 429 for too many active batches.
        StorageError, KubernetesError: as `make_batch` and `current` do.
    """
    namespace = namespace_of(principal)
    window = completion_window(gateway.settings, request.completion_window)
    if request.endpoint not in _ENDPOINTS:
        raise errors.not_one_of("endpoint", request.endpoint, _ENDPOINTS)
    asked = request.model_dump() | {"completion_window": window}
    making = _Making(gateway, principal, namespace, request, window)
    return make_once(gateway, namespace, key, asked, making.record)


@dataclass(frozen=True, slots=True)
class _Making:
    """A request whose batch is to be made."""

    gateway: Gateway
    principal: Principal
    namespace: str
    request: CreateBatch
    window: str

    def record(self, batch_id: str) -> BatchRecord:
        """The record of the batch. Of the same id it is the same, whoever makes it."""
        created_at = ids.created_at(batch_id)
        record = BatchRecord(
            id=batch_id,
            namespace=self.namespace,
            user=self.principal.user,
            face=OPENAI,
            created_at=created_at,
            expires_at=created_at + parse_duration(self.window),
            completion_window=self.window,
            endpoint=self.request.endpoint,
            spec={},
            input_file_id=self.request.input_file_id,
            metadata=self.request.metadata,
            output_expires_after=expiry.seconds if (expiry := self.request.output_expires_after) else None,
        )
        try:
            file = self._input_file()
            return msgspec.structs.replace(record, spec=self._spec(file, self._server(file)))
        except _Refused as refused:
            return msgspec.structs.replace(record, ending=Ending(failed_state(record, created_at, refused.error)))

    def _input_file(self) -> FileRecord:
        file_id = self.request.input_file_id
        stored = self.gateway.files.get(self.namespace, file_id) if ids.is_file_id(file_id) else None
        if stored is None or is_expired(stored.record, self.gateway.clock()):
            raise _Refused(missing_input(file_id))
        if stored.record.purpose != BATCH:
            message = f"The file {file_id} has the purpose '{stored.record.purpose}'; an input must have '{BATCH}'."
            raise _Refused(BatchError("invalid_request", message, "file_id"))
        return stored.record

    def _server(self, file: FileRecord) -> Server | None:
        try:
            return choose(self.gateway, model=file.model, endpoint=self.request.endpoint).server
        except UnknownModel as error:
            raise _Refused(BatchError("model_not_found", error.message, "body.model", 1)) from error

    def _spec(self, file: FileRecord, server: Server | None) -> dict[str, Any]:
        folder = self.gateway.tenant(self.namespace)
        return spec_of(
            self.gateway.settings,
            self.namespace,
            face=OPENAI,
            endpoint=self.request.endpoint,
            input_uri=f"{folder.uri}{file.key}",
            output_uri=folder.uri,
            server=server,
            completion_window=self.window,
            metadata=self.request.metadata,
        )


def completion_window(settings: Settings, asked: str | None = None) -> str:
    """The window that was asked for, or that of who asks for none. Raises ApiError (400) for one that isn't offered."""
    allowed = settings.completion_windows
    if asked is None:
        return DEFAULT_WINDOW if DEFAULT_WINDOW in allowed else allowed[0]
    if asked in allowed:
        return asked
    listed = ", ".join(f"'{window}'" for window in allowed)
    message = f"Invalid completion_window: '{errors.shown_id(asked)}'. Supported values are: {listed}."
    raise errors.invalid_value("completion_window", message)
