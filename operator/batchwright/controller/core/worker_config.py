"""The ConfigMap that tells the workers what to do, kept equal to the spec while there is work."""

from typing import Any

from batchwright.api import defaults, names
from batchwright.api.batchjob import BatchJob, BatchJobSpec, Metadata
from batchwright.api.worker_job import Limits, WorkerJob
from batchwright.controller.core import child_names, jobs
from batchwright.controller.core.observed import Identity, Observed
from batchwright.controller.core.plan_of_actions import Action, CreateConfigMap, UpdateConfigMap
from batchwright.controller.settings import Settings

_NOT_FOR_WORKERS: dict[str, Any] = {
    "suspend": None,
    "cancel": None,
    "completion_window": None,
    "ttl_seconds_after_finished": None,
    "queue_name": None,
    "worker": None,
}
"""What only the operator acts on. It stays out, so that pausing a BatchJob doesn't rewrite what workers read."""


def worker_job(
    identity: Identity, spec: BatchJobSpec, settings: Settings, *, cluster: str, server_url: str
) -> WorkerJob:
    """What the workers of a BatchJob are told.

    Raises:
        pydantic.ValidationError: the server's URL can't be used.
    """
    return WorkerJob(
        batchjob=BatchJob(
            metadata=Metadata(name=identity.name, namespace=identity.namespace, uid=identity.uid),
            spec=spec.model_copy(update=_NOT_FOR_WORKERS),
        ),
        cluster=cluster,
        server_url=server_url,
        limits=Limits(
            max_lines=settings.max_lines,
            max_file_bytes=settings.max_file_bytes,
            max_body_bytes=settings.max_body_bytes,
        ),
        keep_work_objects=settings.keep_work_objects,
    )


def actions(observed: Observed, spec: BatchJobSpec, settings: Settings) -> tuple[Action, ...]:
    """Create the ConfigMap, or bring it up to date."""
    identity, existing = observed.identity, observed.config_map
    server_url = defaults.server_url(spec, identity.namespace, settings.default_server_url)
    assert server_url is not None, "a BatchJob without a server has failed before"
    job = worker_job(identity, spec, settings, cluster=observed.cluster, server_url=server_url)
    data = {names.JOB_FILE: job.model_dump_json(by_alias=True, exclude_none=True)}
    if existing is None or existing.deleting:
        name = child_names.config_map_name(identity)
        return (
            CreateConfigMap(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": jobs.child_metadata(identity, name),
                    "data": data,
                }
            ),
        )
    if dict(existing.data) != data:
        return (UpdateConfigMap(existing.name, existing.uid, data),)
    return ()
