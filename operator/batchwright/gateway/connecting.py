"""A gateway that is connected to its cluster and its storage, as a pod's settings and mounts say."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from batchwright.api import names
from batchwright.gateway.catalogue_file import CatalogueFile
from batchwright.gateway.context import Gateway
from batchwright.gateway.identity.authentication import KeysAndTokens
from batchwright.gateway.identity.key_ring import SECRET, KeyRing
from batchwright.gateway.identity.rate import RateLimits
from batchwright.gateway.identity.tokens import Tokens
from batchwright.gateway.opening import THREADS, open_gateway
from batchwright.gateway.readiness import mark_ready
from batchwright.gateway.settings import Settings
from batchwright.kube.access_reviews import AccessReviews
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.connection import Connection, TimeLimits
from batchwright.kube.pod import own_namespace
from batchwright.kube.secrets import SecretObject
from batchwright.storage.errors import StorageError
from batchwright.storage.probe import probe_conditional_put

logger = logging.getLogger(__name__)

CATALOGUE_FILE: Final = Path("/etc/batchwright/gateway/models.yaml")
CATALOGUE_VARIABLE: Final = "BATCHWRIGHT_GATEWAY_MODELS"
CREDENTIALS: Final = Path(names.STORAGE_CREDENTIALS_DIRECTORY)
CREDENTIALS_VARIABLE: Final = "BATCHWRIGHT_GATEWAY_CREDENTIALS"
CA_BUNDLE: Final = Path(names.CA_DIRECTORY) / "storage" / names.CA_FILE
SPOOL_VARIABLE: Final = "BATCHWRIGHT_GATEWAY_SPOOL"
NAMESPACE_OF_MANIFESTS: Final = "batchwright-system"
_IDENTITY_LIMITS: Final = TimeLimits(connect=2.0, read=5.0)
"""Each request waits for the answer to who sends it."""


def connected(settings: Settings, environment: Mapping[str, str]) -> Gateway:
    """Put a gateway together. Nothing is requested yet.

    Raises:
        InvalidSettings: the catalogue can't be used.
        KubernetesError: there is no way to a cluster.
        StorageError: storage settings or credentials that can't be used.
    """
    # A token may be looked at by several replicas; reads are cheap, so they aren't tried again here.
    identity = Connection.open(connections=THREADS, time_limits=_IDENTITY_LIMITS, retries=False)
    secret = SecretObject(identity, gateway_namespace(environment), SECRET)
    return open_gateway(
        settings,
        catalogue=CatalogueFile(Path(environment.get(CATALOGUE_VARIABLE) or CATALOGUE_FILE)),
        batchjobs=BatchJobs(Connection.open(connections=THREADS)),
        authenticator=KeysAndTokens(KeyRing(secret), Tokens(AccessReviews(identity))),
        rate=RateLimits(settings.tenant_limits),
        credentials=_with_files(Path(environment.get(CREDENTIALS_VARIABLE) or CREDENTIALS)),
        ca_bundle=CA_BUNDLE if CA_BUNDLE.exists() else None,
        spool=Path(environment.get(SPOOL_VARIABLE) or names.SPOOL_DIRECTORY),
    )


def gateway_namespace(environment: Mapping[str, str]) -> str:
    """The namespace that the gateway runs in: its keys and its Lease are there."""
    return environment.get("POD_NAMESPACE") or own_namespace() or NAMESPACE_OF_MANIFESTS


def check_storage(gateway: Gateway) -> None:
    """Try at the start what the gateway needs of its storage, and log what is missing. It may come later, without a
    new start; /readyz says no until then.
    """
    problem = _storage_problem(gateway)
    if problem is not None:
        logger.error("%s", problem)


def _storage_problem(gateway: Gateway) -> str | None:
    path = gateway.settings.batch_path
    try:
        mark_ready(gateway)
        exclusive = probe_conditional_put(gateway.root, gateway.root_prefix)
    except StorageError as error:
        return (
            f"the storage can't be used: {error}. The gateway needs to read, write, list and delete everything below"
            f" the setting batchPath, {path}: check it, storage.endpointURL, and the Secret `gateway-storage` or the"
            " volume. /readyz says no until it works"
        )
    if not exclusive:
        return (
            f"the storage at {path} ignores If-None-Match: two requests or replicas at once may overwrite each other's"
            " records. Use a store with conditional writes"
        )
    return None


def _with_files(folder: Path) -> Path | None:
    """A folder with anything in it: a Secret that is optional and missing is mounted as an empty one."""
    try:
        return folder if any(not entry.name.startswith(".") for entry in folder.iterdir()) else None
    except OSError:
        return None
