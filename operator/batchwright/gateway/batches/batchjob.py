"""The BatchJob of a batch. Pure."""

from typing import Any, Final

from batchwright.api import names
from batchwright.api.batchjob import Server
from batchwright.api.model import Model
from batchwright.gateway import ids
from batchwright.gateway.records.batch_record import BatchRecord, Face
from batchwright.gateway.settings import Settings
from batchwright.gateway.volumes import worker_volumes
from batchwright.kube.connection import RawObject

_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def spec_of(
    settings: Settings,
    namespace: str,
    *,
    face: Face,
    endpoint: str | None,
    input_uri: str,
    output_uri: str,
    server: Server | None,
    completion_window: str | None,
    model: str | None = None,
    metadata: dict[str, str] | None = None,
    **changes: dict[str, Any],
) -> dict[str, Any]:
    """`spec` of a BatchJob that a face makes for a tenant, with the settings' limits and defaults.

    input_uri, output_uri: of the requests, and of the prefix under which the BatchJob's folder will be
    server: None leaves it to the operator's setting
    model: what every line must name; None for whatever they all name
    changes: more of `input`, `output` and `worker`, such as `output={"folder": …, "names": …}`; they win
    """
    defaults = settings.batch_jobs
    bounds = settings.face_limits(namespace, face)
    spec: dict[str, Any] = {
        "endpoint": endpoint,
        "model": model,
        "input": {"uri": input_uri, "limits": _plain(bounds), **changes.get("input", {})},
        "output": {"uri": output_uri, **changes.get("output", {})},
        "server": _plain(server),
        "storage": _plain(settings.worker_storage(namespace)),
        "completionWindow": completion_window,
        "sharding": _plain(defaults.sharding),
        "requests": _plain(defaults.requests),
        "ttlSecondsAfterFinished": int(defaults.ttl_after_finished.total_seconds()),
        "queueName": defaults.queue_name,
        "worker": {
            **(_plain(defaults.worker) or {}),
            **_volumes(settings, namespace),
            **changes.get("worker", {}),
        },
        "metadata": metadata,
    }
    return {name: value for name, value in _without_empty(spec).items() if value != {} or name == "metadata"}


def manifest_of(record: BatchRecord) -> RawObject:
    """The BatchJob, from the record alone: whoever creates it makes the same one."""
    annotations = {names.ANNOTATION_USER: record.user, names.ANNOTATION_BATCH_ID: record.id}
    if record.input_file_id:
        annotations[names.ANNOTATION_INPUT_FILE_ID] = record.input_file_id
    cancel = cancelling(record)
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": ids.batchjob_name(record.id),
            "namespace": record.namespace,
            "labels": {names.LABEL_GATEWAY: record.face},
            "annotations": annotations | cancel.get("metadata", {}).get("annotations", {}),
        },
        "spec": record.spec | cancel.get("spec", {}),
    }


def cancelling(record: BatchRecord) -> RawObject:
    """What a cancel changes of the BatchJob; nothing where none was asked for."""
    if record.cancelling_at is None:
        return {}
    moment = record.cancelling_at.strftime(_TIME_FORMAT)
    return {"metadata": {"annotations": {names.ANNOTATION_CANCELLING_AT: moment}}, "spec": {"cancel": True}}


def _volumes(settings: Settings, namespace: str) -> dict[str, Any]:
    volumes, mounts = worker_volumes(settings, namespace)
    return {"volumes": volumes, "volumeMounts": mounts} if volumes else {}


def _plain(value: Model | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """Without nulls, and without limits that limit nothing."""
    kept = {name: part for name, part in value.items() if part is not None}
    kept["input"] = {name: part for name, part in kept["input"].items() if part not in (None, {})}
    return kept
