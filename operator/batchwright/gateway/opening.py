"""From settings to a gateway that can work. Nothing is requested yet."""

import dataclasses
import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.context import Authenticator, BatchJobsInCluster, Gateway, RateLimiter
from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.idempotency_record import IdempotencyRecord
from batchwright.gateway.records.record_store import RecordStore
from batchwright.gateway.settings import Settings
from batchwright.gateway.tenant_folder import TenantFolder
from batchwright.storage.factory import open_store
from batchwright.storage.location import FILE, parse_location
from batchwright.storage.settings import StorageSettings

THREADS: Final = 100
"""Handlers at once: they block on storage and cluster, each on a connection. An upload holds none while its client
sends."""
GATEWAY_FOLDER: Final = ".gateway"
"""No namespace has a dot, so no tenant's folder is called so."""


def open_gateway(
    settings: Settings,
    *,
    catalogue: Callable[[], Catalogue | None],
    batchjobs: BatchJobsInCluster,
    authenticator: Authenticator,
    rate: RateLimiter,
    credentials: Path | None,
    ca_bundle: Path | None,
    spool: Path,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Gateway:
    """Put it together.

    credentials: folder with the gateway's own storage credentials; None takes the SDK's default chain
    ca_bundle: PEM file that the store's certificate is checked against; None takes the public authorities
    spool: folder for parts of uploads

    Raises:
        StorageError: settings or credentials that can't be used.
        OSError: the folder of batchPath can't be made.
    """
    storage = dataclasses.replace(StorageSettings.from_spec(settings.storage), max_connections=THREADS)
    root = parse_location(f"{settings.batch_path}{GATEWAY_FOLDER}/")
    if root.scheme == FILE:  # a listing of a folder that isn't there is an error, and this one is empty at first
        Path(root.bucket).mkdir(parents=True, exist_ok=True)
    store = open_store(root, storage, credentials_dir=credentials, ca_bundle=ca_bundle)

    @functools.lru_cache(maxsize=1024)
    def tenant(namespace: str) -> TenantFolder:
        uri = f"{settings.batch_path}{namespace}/"
        location = parse_location(uri)
        own = open_store(location, storage, credentials_dir=credentials, ca_bundle=ca_bundle)
        return TenantFolder(namespace, own, location.key, uri)

    return Gateway(
        settings=settings,
        catalogue=catalogue,
        files=RecordStore(store, f"{root.key}files/", FileRecord),
        batches=RecordStore(store, f"{root.key}batches/", BatchRecord),
        idempotency=RecordStore(store, f"{root.key}idempotency/", IdempotencyRecord),
        batchjobs=batchjobs,
        authenticator=authenticator,
        rate=rate,
        root=store,
        root_prefix=root.key,
        tenant=tenant,
        clock=clock,
        spool=spool,
    )
