"""What a worker pod mounts: its job file, a spool, and the Secrets and ConfigMaps that the spec refers to.

The operator reads no Secrets: it needs no permission to. Each reference is mounted as required, so the kubelet waits
for a missing one, says so in an Event (FailedMount), and starts the pod as soon as it appears. `blockers` finds the
reference again by the volume's name. Mounted files, and not environment variables, so that a rotated Secret reaches a
running worker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from batchwright.api import defaults, names
from batchwright.api.batchjob import BatchJobSpec, Storage
from batchwright.api.references import ConfigMapKeyReference

ACCESS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SESSION_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105
PREFIX = "batchwright-"
"""Every volume of ours begins so, and none of a user's may."""
_FILE_MODE = 0o440
"""Readable through the pod's fsGroup."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A Secret or ConfigMap that the spec refers to, and where a worker finds it."""

    volume: str
    kind: Literal["Secret", "ConfigMap"]
    name: str
    keys: tuple[str, ...]
    field: str
    """Path of the reference in the BatchJob."""
    path: str
    files: tuple[str, ...]
    optional_keys: tuple[str, ...] = ()


def references(spec: BatchJobSpec) -> tuple[Reference, ...]:
    """Everything that workers mount from Secrets and ConfigMaps."""
    return (
        *_storage("input", defaults.input_storage(spec), _storage_field(spec, "input")),
        *_storage("output", defaults.output_storage(spec), _storage_field(spec, "output")),
        *_server(spec),
    )


def volumes(spec: BatchJobSpec, config_map: str, spool_size: str) -> list[dict[str, Any]]:
    """The pod's volumes: ours, then the user's."""
    return [
        {"name": f"{PREFIX}job", "configMap": {"name": config_map}},
        {"name": f"{PREFIX}spool", "emptyDir": {"sizeLimit": spool_size}},
        {"name": f"{PREFIX}tmp", "emptyDir": {"sizeLimit": spool_size}},
        *(_volume(reference) for reference in references(spec)),
        *((spec.worker and spec.worker.volumes) or []),
    ]


def mounts(spec: BatchJobSpec) -> list[dict[str, Any]]:
    """Where the container finds them."""
    return [
        {"name": f"{PREFIX}job", "mountPath": names.JOB_DIRECTORY, "readOnly": True},
        {"name": f"{PREFIX}spool", "mountPath": names.SPOOL_DIRECTORY},
        {"name": f"{PREFIX}tmp", "mountPath": "/tmp"},  # noqa: S108
        *({"name": reference.volume, "mountPath": reference.path, "readOnly": True} for reference in references(spec)),
        *((spec.worker and spec.worker.volume_mounts) or []),
    ]


def host_path_volume(spec: BatchJobSpec) -> str | None:
    """The field of the first hostPath volume, if there is one."""
    for number, volume in enumerate((spec.worker and spec.worker.volumes) or []):
        if "hostPath" in volume:
            return f"spec.worker.volumes[{number}].hostPath"
    return None


def _storage_field(spec: BatchJobSpec, side: Literal["input", "output"]) -> str:
    own = spec.input.storage if side == "input" else spec.output.storage
    return f"spec.{side}.storage" if own is not None else "spec.storage"


def _storage(side: str, storage: Storage, field: str) -> Iterator[Reference]:
    if storage.credentials_secret_ref is not None:
        yield Reference(
            volume=f"{PREFIX}storage-{side}",
            kind="Secret",
            name=storage.credentials_secret_ref.name,
            keys=ACCESS_KEYS,
            field=f"{field}.credentialsSecretRef",
            path=f"{names.STORAGE_CREDENTIALS_DIRECTORY}/{side}",
            files=ACCESS_KEYS,
            optional_keys=(SESSION_TOKEN,),
        )
    yield from _authority(side, storage.ca_bundle_config_map_ref, field)


def _server(spec: BatchJobSpec) -> Iterator[Reference]:
    if spec.server is None:
        return
    secret = spec.server.api_key_secret_ref
    if secret is not None:
        yield Reference(
            volume=f"{PREFIX}server-key",
            kind="Secret",
            name=secret.name,
            keys=(secret.key or defaults.DEFAULT_API_KEY,),
            field="spec.server.apiKeySecretRef",
            path=names.SERVER_DIRECTORY,
            files=(names.API_KEY_FILE,),
        )
    yield from _authority("server", spec.server.ca_bundle_config_map_ref, "spec.server")


def _authority(whose: str, reference: ConfigMapKeyReference | None, field: str) -> Iterator[Reference]:
    if reference is not None:
        yield Reference(
            volume=f"{PREFIX}ca-{whose}",
            kind="ConfigMap",
            name=reference.name,
            keys=(reference.key or defaults.DEFAULT_CA_KEY,),
            field=f"{field}.caBundleConfigMapRef",
            path=f"{names.CA_DIRECTORY}/{whose}",
            files=(names.CA_FILE,),
        )


def _volume(reference: Reference) -> dict[str, Any]:
    source = "secret" if reference.kind == "Secret" else "configMap"
    items = [{"key": key, "path": file} for key, file in zip(reference.keys, reference.files, strict=True)]
    sources: list[dict[str, Any]] = [{source: {"name": reference.name, "items": items}}]
    if reference.optional_keys:
        # Optional keys need a source of their own: `optional` makes a whole source optional.
        optional = [{"key": key, "path": key} for key in reference.optional_keys]
        sources.append({source: {"name": reference.name, "items": optional, "optional": True}})
    return {"name": reference.volume, "projected": {"sources": sources, "defaultMode": _FILE_MODE}}
