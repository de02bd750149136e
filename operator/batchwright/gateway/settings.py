"""The gateway's settings: one YAML file, read and checked at the start. Each error names the setting."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import yaml
from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from batchwright.api import rules
from batchwright.api.batchjob import Server, Storage
from batchwright.api.duration import Duration
from batchwright.api.model import Model
from batchwright.api.running import Requests, Sharding
from batchwright.api.worker_pods import Worker
from batchwright.gateway.path_patterns import TENANT, can_meet, segments
from batchwright.gateway.records.idempotency_record import KEPT

SETTINGS_VARIABLE: Final = "BATCHWRIGHT_GATEWAY_SETTINGS"
SETTINGS_FILE: Final = Path("/etc/batchwright/gateway/settings.yaml")
SHORTEST_TTL: Final = timedelta(minutes=10)

_BATCH_PATH: Final = re.compile(r"s3://[a-zA-Z0-9][-._a-zA-Z0-9]{1,62}/([^\x00]*/)?|file:///([^\x00]+/)?")
_PATH_SEGMENTS: Final = re.compile(r"[^./:\x00-\x1f][^/:\x00-\x1f]*(/[^./:\x00-\x1f][^/:\x00-\x1f]*)*")
"""Without a colon, which no mount has in its path."""
_ROOT_PATH: Final = r"^(/[A-Za-z0-9._~-]+)*$"

Positive = Annotated[int, Field(strict=True, ge=1)]
NamespaceName = Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
M = TypeVar("M", bound=Model)
WindowText = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}[smh]$")]


class InvalidSettings(Exception):  # noqa: N818
    """Settings that can't be used; the message names every one of them, and the file."""


class FaceLimits(Model):
    """What a file may hold that comes by one of the faces. Absent: as otherwise; null: no bound."""

    lines: Positive | None = Field(None, description="Requests of a file.")
    bytes: Positive | None = Field(None, description="Bytes of a file.")


class TenantLimits(Model):
    """What a tenant may do at once and in a minute. Absent: as otherwise; null: no bound."""

    active_batches: Positive | None = Field(None, description="Batches that have not ended.")
    requests_per_minute: Positive | None = Field(
        None, description="HTTP requests, counted by each replica of the gateway for itself."
    )
    burst: Positive | None = Field(None, description="Requests at once above that rate. Default: a minute's.")


OPENAI_LIMITS: Final = FaceLimits(lines=50_000, bytes=200_000_000)
PATH_LIMITS: Final = FaceLimits(lines=150_000)
TENANT_LIMITS: Final = TenantLimits(active_batches=100, requests_per_minute=6000)


class Limits(Model):
    """Bounds by face, and for what a tenant does."""

    openai: FaceLimits = Field(OPENAI_LIMITS, description="Files of /v1/files. Default: 50000 lines, 200000000 bytes.")
    paths: FaceLimits = Field(PATH_LIMITS, description="Inputs of path-based batches. Default: 150000 lines.")
    tenant: TenantLimits = Field(
        TENANT_LIMITS, description="Each tenant. Default: 100 active batches, 6000 requests a minute."
    )


class TenantSettings(Model):
    """What is different for one tenant."""

    limits: Limits | None = Field(
        None, description="Its own limits; what is absent in them is as for all tenants, null lifts a bound."
    )
    storage: Storage | None = Field(None, description="How its workers reach the storage. Default: storage.")


class SharedVolume(Model):
    """A volume that people and workers share, for file:// paths: a claim of the same name in each tenant's namespace.

    A worker mounts nothing of it but the tenant's own part and, read-only, the shared roots: so neither `..` nor a
    symbolic link leads to another tenant's part.
    """

    claim_name: Annotated[str, StringConstraints(max_length=253, pattern=rules.DNS_NAME_PATTERN)] = Field(
        description="PersistentVolumeClaim, in the tenant's namespace."
    )
    mount_path: Annotated[str, StringConstraints(pattern=r"^/[^\x00]*[^/\x00]$")] = Field(
        description="Where the volume's root is in the paths that people write, such as /data."
    )
    tenant_root: str = Field(
        "tenants/" + TENANT,
        description="A tenant's part of the volume, under mountPath; {tenant} is its namespace. Default:"
        " tenants/{tenant}.",
    )
    shared_roots: list[str] = Field(
        default_factory=list, description="Folders under mountPath that every tenant may read. Default: none."
    )

    @field_validator("mount_path")
    @classmethod
    def _plain_mount_path(cls, value: str) -> str:
        if not _PATH_SEGMENTS.fullmatch(value.removeprefix("/")):
            raise ValueError("must be an absolute path without '.', '..' and empty segments")
        return value

    @field_validator("tenant_root")
    @classmethod
    def _names_the_tenant(cls, value: str) -> str:
        if TENANT not in value.split("/") or not _PATH_SEGMENTS.fullmatch(value):
            raise ValueError(
                f"must be a relative path with {TENANT} as one of its segments, such as tenants/{TENANT}: without it"
                " tenants would share one folder"
            )
        return value

    @field_validator("shared_roots")
    @classmethod
    def _relative(cls, value: list[str]) -> list[str]:
        for root in value:
            if not _PATH_SEGMENTS.fullmatch(root):
                raise ValueError(f"{root!r} must be a relative path without '.', '..' and empty segments")
        return value

    @model_validator(mode="after")
    def _apart(self) -> Self:
        first = self.tenant_root.partition(TENANT)[0].rstrip("/")
        for root in self.shared_roots:
            if not first or f"{first}/".startswith(f"{root}/") or f"{root}/".startswith(f"{first}/"):
                raise ValueError(f"sharedRoots: {root!r} and the tenants' parts lie in one another")
        return self


class BatchJobDefaults(Model):
    """What the BatchJobs of the gateway are made with."""

    sharding: Sharding = Field(
        Sharding(lines_per_shard=1000, parallelism=8), description="Default: 1000 lines a shard, 8 workers."
    )
    requests: Requests = Field(
        Requests(timeout=timedelta(minutes=3), retries=3), description="Default: timeout 3m, 3 retries."
    )
    worker: Worker | None = Field(None, description="As spec.worker of a BatchJob. Default: none.")
    queue_name: str | None = Field(None, description="As spec.queueName of a BatchJob. Default: none.")
    ttl_after_finished: Duration = Field(
        timedelta(days=7),
        description="When a finished BatchJob is deleted, 10m or later; its batch stays known. Default: 168h.",
    )

    @field_validator("ttl_after_finished")
    @classmethod
    def _outlives_an_outage(cls, value: timedelta) -> timedelta:
        if value < SHORTEST_TTL:
            raise ValueError("must be at least 10m: until then a finished BatchJob has to be read for its batch")
        return value


class Settings(Model):
    """Everything that an administrator may choose, beside the catalogue of models and the API keys."""

    batch_path: str = Field(
        description="Where files and results lie, s3://bucket/prefix/ or file:///folder/. An upload is at"
        " <batchPath>/<tenant>/<file id>. Required."
    )
    storage: Storage = Field(
        Storage(),
        description="How workers reach it, as spec.storage of a BatchJob. credentialsSecretRef names a Secret that an"
        " administrator makes in each tenant's namespace; its keys should reach <batchPath>/<tenant>/ alone."
        " The gateway itself uses the same address with credentials of its own.",
    )
    default_server: Server | None = Field(
        None, description="Model server of all batches where there is no catalogue. Default: the operator's."
    )
    batch_jobs: BatchJobDefaults = Field(BatchJobDefaults(), description="How batches are run.")
    limits: Limits = Field(Limits(), description="Bounds of files and of tenants; null lifts one.")
    tenants: dict[NamespaceName, TenantSettings] = Field(
        default_factory=dict, description="What is different for single tenants, by namespace. Default: nothing."
    )
    completion_windows: Annotated[list[WindowText], Field(min_length=1)] = Field(
        ["24h"], description="Values of completion_window that are taken, such as 24h. Default: 24h alone."
    )
    shared_volume: SharedVolume | None = Field(
        None, description="A volume for file:// paths. Default: none, inputs are object URIs."
    )
    default_cluster: str = Field("local", description="Name of this cluster where no catalogue says. Default: local.")
    default_framework: str = Field("vllm", description="Framework where no catalogue says. Default: vllm.")
    root_path: Annotated[str, StringConstraints(pattern=_ROOT_PATH)] = Field(
        "", description="Prefix under which an ingress serves the gateway, such as /batch. Default: none."
    )
    upload_deadline: Duration = Field(
        timedelta(hours=1), description="What an unfinished upload may take; then it is removed. Default: 1h."
    )
    keep_batches: Duration | None = Field(
        None, description="How long an ended batch stays known, 24h or longer. Default: for ever."
    )
    expiry_interval: Duration = Field(
        timedelta(minutes=1), description="How often expired files are looked for. Default: 1m."
    )

    @field_validator("batch_path")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        folder = value if value.endswith("/") else f"{value}/"
        if not _BATCH_PATH.fullmatch(folder) or any(part in (".", "..") for part in folder.split("/")):
            raise ValueError("must be s3://bucket/prefix/ or file:///folder/, without '.' and '..'")
        return folder

    @field_validator("keep_batches")
    @classmethod
    def _outlives_its_key(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < KEPT:
            raise ValueError(
                "must be at least 24h: for so long a request with the same Idempotency-Key finds its batch, and without"
                " it would make another one"
            )
        return value

    @model_validator(mode="after")
    def _parts_of_the_volume_are_apart(self) -> Self:
        """A part that a tenant may write to must hold neither another one's files nor the gateway's records."""
        volume, path = self.shared_volume, self.batch_path.removeprefix("file://")
        if volume is None or path == self.batch_path:
            return self
        if not path.startswith(f"{volume.mount_path}/"):
            if f"{volume.mount_path}/".startswith(path):
                raise ValueError(f"sharedVolume.mountPath: {volume.mount_path!r} lies in batchPath")
            return self
        folder = segments(path.removeprefix(volume.mount_path))
        for name, root in (
            ("tenantRoot", volume.tenant_root),
            *(("sharedRoots", root) for root in volume.shared_roots),
        ):
            if can_meet((*folder, TENANT), segments(root)):
                raise ValueError(f"sharedVolume.{name}: {root!r} and tenants' folders in batchPath lie in one another")
        return self

    def face_limits(self, namespace: str, face: str) -> FaceLimits:
        """Bounds of a file of a tenant, by the face (`openai` or `paths`) that it comes by."""
        return self._limits_of(namespace, face, {"openai": OPENAI_LIMITS, "paths": PATH_LIMITS}[face])

    def tenant_limits(self, namespace: str) -> TenantLimits:
        """What a tenant may do."""
        return self._limits_of(namespace, "tenant", TENANT_LIMITS)

    def worker_storage(self, namespace: str) -> Storage:
        """`spec.storage` of a tenant's BatchJobs."""
        tenant = self.tenants.get(namespace)
        return (tenant and tenant.storage) or self.storage

    def _limits_of(self, namespace: str, name: str, found: M) -> M:
        """The built-in bounds, over them those of all tenants, over them the tenant's: a bound that is not named stays,
        since nobody lifts one by setting another.
        """
        tenant = self.tenants.get(namespace)
        for limits in (self.limits, tenant.limits if tenant else None):
            if limits is not None and name in limits.model_fields_set:
                found = _merged(found, getattr(limits, name))
        return found


def _merged(general: M, own: M) -> M:
    return general.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings file.

    Raises:
        InvalidSettings: it isn't there, is no YAML, or a setting can't be used.
    """
    path = Path(environment.get(SETTINGS_VARIABLE) or SETTINGS_FILE)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"{path} can't be read ({error}): mount the ConfigMap `gateway` there, or name a file with"
            f" {SETTINGS_VARIABLE}"
        ) from error
    return parse_settings(text, str(path))


def parse_settings(text: str, source: str) -> Settings:
    """Settings from YAML text; `source` is named in errors. Raises InvalidSettings."""
    return parse_yaml(Settings, text, source)


def parse_yaml(kind: type[M], text: str, source: str) -> M:
    """A model from YAML text; every problem is named by its path. Raises InvalidSettings."""
    try:
        loaded: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidSettings(f"{source} is no YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise InvalidSettings(f"{source} must be a mapping")
    try:
        return kind.model_validate(loaded)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(step) for step in problem['loc']) or 'settings'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise InvalidSettings(f"{source}: {problems}") from error
