"""Making a path-based batch: from what the client asked for to a record, from which its BatchJob is made."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from batchwright.api.batchjob import Endpoint
from batchwright.api.duration import parse_duration
from batchwright.gateway import ids
from batchwright.gateway.batches.batchjob import spec_of
from batchwright.gateway.batches.creation import completion_window
from batchwright.gateway.batches.once import make_once
from batchwright.gateway.context import Gateway
from batchwright.gateway.http.dependencies import namespace_of
from batchwright.gateway.models.choosing import Choice, choose
from batchwright.gateway.principal import Principal
from batchwright.gateway.records.batch_record import PATHS, BatchRecord, BatchState, PathRequest
from batchwright.gateway.resource_server.locations import LONGEST_URI, Place, input_place, output_place
from batchwright.gateway.resource_server.naming import OutputNames, output_names

Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_URI)]


class CreateBatch(BaseModel):
    """What a client asks for."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, StringConstraints(min_length=1, max_length=512)] = Field(
        description="Model that every line names."
    )
    input_file: Text = Field(description="Path of a JSONL file on the shared volume, or s3://bucket/key.")
    output_folder_path: Text | None = Field(
        None, description="Folder for results. Default: `batch-results` in your part of the shared volume."
    )


def create_batch(
    gateway: Gateway, principal: Principal, asked: CreateBatch, *, cluster: str, framework: str, key: str | None = None
) -> tuple[BatchRecord, BatchState]:
    """Make a batch, or find the one that the same request made before.

    key: the client's Idempotency-Key; None where it sent none

    Raises:
        ApiError: 400 for a place that can't be used, an unknown cluster or framework, a model without batches; 404 for
            an unknown model; 429 for one batch too many.
    """
    namespace = namespace_of(principal)

    def record_of(batch_id: str) -> BatchRecord:
        return _record(
            gateway,
            namespace,
            batch_id,
            user=principal.user,
            model=asked.model,
            choice=choose(gateway, model=asked.model, endpoint=None, cluster=cluster, framework=framework),
            source=input_place(gateway.settings, namespace, asked.input_file),
            folder=output_place(gateway.settings, namespace, asked.output_folder_path),
        )

    place = {"face": PATHS, "cluster": cluster, "framework": framework}
    return make_once(gateway, namespace, key, asked.model_dump() | place, record_of)


def _record(
    gateway: Gateway,
    namespace: str,
    batch_id: str,
    *,
    user: str,
    model: str,
    choice: Choice,
    source: Place,
    folder: Place,
) -> BatchRecord:
    now, window = ids.created_at(batch_id), completion_window(gateway.settings)
    names = output_names(source.shown, model, batch_id, now)
    # What its lines say, but for a server that takes one endpoint alone.
    endpoint = choice.endpoints[0].value if len(choice.endpoints) == 1 else None
    limits = gateway.settings.face_limits(namespace, PATHS).model_dump(by_alias=True, exclude_none=True)
    if endpoint is None and set(choice.endpoints) != set(Endpoint):
        limits["endpoints"] = [one.value for one in choice.endpoints]
    return BatchRecord(
        id=batch_id,
        namespace=namespace,
        user=user,
        face=PATHS,
        created_at=now,
        expires_at=now + parse_duration(window),
        completion_window=window,
        endpoint=endpoint,
        spec=spec_of(
            gateway.settings,
            namespace,
            face=PATHS,
            endpoint=endpoint,
            input_uri=source.uri,
            output_uri=folder.uri,
            server=choice.server,
            completion_window=window,
            model=model,
            input={"limits": limits},
            output=names.spec(),
        ),
        path_request=_path_request(choice, source, folder, names),
    )


def _path_request(choice: Choice, source: Place, folder: Place, names: OutputNames) -> PathRequest:
    inside = f"{folder.shown}/{names.folder}"
    return PathRequest(
        cluster=choice.cluster,
        framework=choice.framework,
        input_file=source.shown,
        output_folder_path=folder.shown,
        results_file=f"{inside}/{names.results}",
        errors_file=f"{inside}/{names.errors}",
        progress_file=f"{inside}/{names.progress}",
    )
