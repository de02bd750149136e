"""What workers mount for a tenant's batches. Pure.

A volume that all tenants share is mounted in parts: the tenant's own part at its full path, and the shared roots, which
can't be written to. Nothing else of it exists in a worker. So a symbolic link in a tenant's part that points to another
tenant's leads to nothing, whenever it is made or changed: checking a path when a batch is created could not do that,
and the gateway does not even mount the volume for it.

The kubelet opens a subPath itself, and follows links on the way to it within the volume. The folders above a tenant's
part must therefore belong to an administrator, as the documentation says.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, Final

from batchwright.gateway.path_patterns import TENANT
from batchwright.gateway.settings import Settings, SharedVolume

VOLUME: Final = "gateway-shared-volume"
FILE_SCHEME: Final = "file://"

Raw = dict[str, Any]


def tenant_root(volume: SharedVolume, namespace: str) -> str:
    """The path of a tenant's part of the volume, as people write it."""
    return f"{volume.mount_path}/{volume.tenant_root.replace(TENANT, namespace)}"


def shared_roots(volume: SharedVolume) -> list[str]:
    """The paths that every tenant may read."""
    return [f"{volume.mount_path}/{root}" for root in volume.shared_roots]


def worker_volumes(settings: Settings, namespace: str) -> tuple[list[Raw], list[Raw]]:
    """`spec.worker.volumes` and `spec.worker.volumeMounts` of a tenant's BatchJobs, whatever face they come by: those
    of the settings, and the tenant's parts of the shared volume.
    """
    worker = settings.batch_jobs.worker
    volumes: list[Raw] = [*((worker and worker.volumes) or [])]
    mounts: list[Raw] = [*((worker and worker.volume_mounts) or [])]
    shared = settings.shared_volume
    if shared is not None:
        volumes.append({"name": VOLUME, "persistentVolumeClaim": {"claimName": shared.claim_name}})
        own = _outermost([tenant_root(shared, namespace), *_batch_folder(settings, shared, namespace)])
        mounts += [_mount(shared, path) for path in own]
        mounts += [{**_mount(shared, path), "readOnly": True} for path in _outermost(shared_roots(shared))]
    return volumes, mounts


def _batch_folder(settings: Settings, shared: SharedVolume, namespace: str) -> list[str]:
    """`<batchPath>/<tenant>`, where that lies on the shared volume."""
    path = f"{settings.batch_path.removeprefix(FILE_SCHEME)}{namespace}"
    on_volume = settings.batch_path.startswith(FILE_SCHEME) and path.startswith(f"{shared.mount_path}/")
    return [path] if on_volume else []


def _mount(shared: SharedVolume, path: str) -> Raw:
    inside = path.removeprefix(f"{shared.mount_path}/")
    return {"name": VOLUME, "mountPath": path, "subPath": inside}


def _outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie in no other one: a mount has what is in it already."""
    each = [PurePosixPath(path) for path in dict.fromkeys(paths)]
    return [str(path) for path in each if not any(other in path.parents for other in each)]
