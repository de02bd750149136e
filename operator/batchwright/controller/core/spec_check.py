"""What is wrong with a spec that the CRD's schema let through."""

from pydantic import ValidationError

from batchwright.api import defaults
from batchwright.api.batchjob import BatchJobSpec
from batchwright.controller.core import volumes, worker_config
from batchwright.controller.core.observed import Observed
from batchwright.controller.settings import Settings


def problem_of(observed: Observed, settings: Settings) -> str | None:
    """The first problem, with the field's name and the remedy."""
    spec = observed.spec
    if spec is None:
        return observed.spec_error
    return _server(observed, spec, settings) or problem_of_worker(spec, settings)


def _server(observed: Observed, spec: BatchJobSpec, settings: Settings) -> str | None:
    identity = observed.identity
    url = defaults.server_url(spec, identity.namespace, settings.default_server_url)
    if url is None:
        return (
            "spec.server: no model server is known. Set spec.server.url or spec.server.service, or give the operator"
            " a default with BATCHWRIGHT_DEFAULT_SERVER_URL"
        )
    try:
        worker_config.worker_job(identity, spec, settings, cluster=observed.cluster, server_url=url)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # The URL itself isn't repeated: statuses are read by more people than may know what stands in it.
        return f"spec.server: the model server's URL can't be used: {first['msg']}"
    return None


def problem_of_worker(spec: BatchJobSpec, settings: Settings) -> str | None:
    """The first problem of spec.worker, for which no pod may be made from it."""
    if spec.worker is None:
        return None
    host_path = volumes.host_path_volume(spec)
    if host_path and not settings.allow_host_path:
        return (
            f"{host_path}: volumes of the node are not allowed. Use another kind of volume, or let an administrator set"
            " the operator's BATCHWRIGHT_ALLOW_HOST_PATH"
        )
    for number, volume in enumerate(spec.worker.volumes or []):
        if str(volume.get("name", "")).startswith(volumes.PREFIX):
            return f"spec.worker.volumes[{number}].name: names that begin with {volumes.PREFIX} are the operator's own"
    for name, value in (spec.worker.resources or {}).items():
        if name in ("limits", "requests") and not isinstance(value, dict):
            return f"spec.worker.resources.{name}: must map names such as memory to quantities such as 512Mi"
    return None
