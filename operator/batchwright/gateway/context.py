"""What every route works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.principal import Principal, Verb
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.idempotency_record import IdempotencyRecord
from batchwright.gateway.records.record_store import RecordStore
from batchwright.gateway.settings import Settings
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.kube.connection import RawObject
from batchwright.storage.protocol import ObjectStore


class Authenticator(Protocol):
    """Finds out who asks. Methods block."""

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Who sent a request with these headers (names in lower case).

        Raises:
            ApiError: 401 without a key or token that is known; 400 or 403 where the namespace is missing or not theirs.
        """

    def authorize(self, principal: Principal, verb: Verb) -> None:
        """Raises ApiError (403) where they may not do this with BatchJobs of their namespace."""

    def check(self) -> None:
        """Raises KubernetesError where nobody can be authenticated, since the API keys can't be read."""


class RateLimiter(Protocol):
    """Requests of a tenant by the minute, in this replica."""

    def check(self, principal: Principal) -> None:
        """Count a request. Raises ApiError (429, Retry-After) where it is one too many."""


class BatchJobsInCluster(Protocol):
    """BatchJobs through the Kubernetes API (`kube.batchjobs.BatchJobs`). Methods block and raise KubernetesError."""

    def get(self, namespace: str, name: str) -> RawObject:
        """One BatchJob."""

    def list(self, namespace: str | None = None, labels: str | None = None) -> list[RawObject]:
        """The BatchJobs of a namespace, or of all, by a label selector."""

    def create(self, namespace: str, manifest: RawObject) -> RawObject:
        """Create one."""

    def patch(self, namespace: str, name: str, changes: RawObject) -> RawObject:
        """Merge changes into one: metadata and spec."""

    def delete(self, namespace: str, name: str, uid: str | None = None) -> None:
        """Delete one."""


@dataclass(frozen=True)
class Gateway:
    """What every route works with. Nothing in it is state that another replica would miss."""

    settings: Settings
    catalogue: Callable[[], Catalogue | None]
    """The catalogue as it is now; None where there is none."""
    files: RecordStore[FileRecord]
    batches: RecordStore[BatchRecord]
    idempotency: RecordStore[IdempotencyRecord]
    batchjobs: BatchJobsInCluster
    authenticator: Authenticator
    rate: RateLimiter
    root: ObjectStore
    """The store of the gateway's own records."""
    root_prefix: str
    """Key of `<batchPath>/.gateway/` in it."""
    tenant: Callable[[str], TenantFolder]
    """The folder of a tenant."""
    clock: Callable[[], datetime]
    spool: Path
    """Folder for parts of uploads."""
