"""What kopf calls. Decorated functions only: each hands over to the parts that do the work.

kopf watches, and keeps one daemon per active BatchJob and its finalizer. There are no create or update handlers: so
nothing is stored in annotations, and no event can be missed. A BatchJob that has finished has neither daemon nor
finalizer. The liveness probe is served beside kopf, whose own server listens on one address family only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import kopf

from batchwright.api import names
from batchwright.controller.core.parsing import Raw
from batchwright.controller.loop import Stopped
from batchwright.controller.operator import Operator

RESOURCE = (names.GROUP, names.VERSION, names.PLURAL)
CHILD_SELECTOR = f"{names.LABEL_BATCHJOB_UID},{names.LABEL_STAGE}"
_PATIENCE = (1, 1, 2, 3, 5, 8, *(10,) * 60)
"""Seconds between kopf's tries of a call that fails: an API server that is back is noticed within ten seconds, and only
one that answers 5xx for ten minutes ends the process."""


def needs_attention(body: Raw, **_: Any) -> bool:
    """Whether a BatchJob has a loop: until it has finished, and again when its spec is changed after that."""
    status = body.get("status") or {}
    finished = any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in status.get("conditions") or []
    )
    return not finished or status.get("observedGeneration") != body["metadata"].get("generation")


def configure(kopf_settings: kopf.OperatorSettings) -> None:
    """kopf's settings: nothing stored but our finalizer, no watch that goes silent."""
    kopf_settings.persistence.finalizer = names.FINALIZER
    kopf_settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    kopf_settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=names.GROUP)
    kopf_settings.posting.enabled = False
    kopf_settings.peering.standalone = True  # a Lease decides who works, before kopf begins
    kopf_settings.watching.connect_timeout = 10
    kopf_settings.watching.server_timeout = 300
    kopf_settings.watching.client_timeout = 330
    kopf_settings.networking.request_timeout = 30
    kopf_settings.networking.connect_timeout = 10
    kopf_settings.networking.error_backoffs = _PATIENCE
    # Without these, every Job and pod of the cluster would be listed and watched.
    kopf_settings.watching.label_selectors["batch", "jobs"] = CHILD_SELECTOR
    kopf_settings.watching.label_selectors["", "v1", "pods"] = CHILD_SELECTOR
    kopf_settings.background.instant_exit_timeout = 0.5
    kopf_settings.process.ultimate_exiting_timeout = 30


def register(registry: kopf.OperatorRegistry, start_operator: Callable[[], Awaitable[Operator]]) -> None:
    """Register the handlers. The operator that they hand over to is started by kopf."""
    operator: Operator | None = None

    def running() -> Operator:
        assert operator is not None, "handlers run after the startup"
        return operator

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        nonlocal operator
        configure(settings)
        operator = await _start()

    async def _start() -> Operator:
        try:
            return await start_operator()
        except Exception as error:
            # kopf tries a startup again for ever; a process that ends is restarted and seen.
            raise kopf.PermanentError(f"the operator can't start: {error}") from error

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        # The same credentials as our own calls, read anew whenever the API server refuses the old ones.
        return await asyncio.to_thread(kopf.login_via_client, **arguments)

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        if operator is not None:
            await operator.stop()

    @kopf.daemon(
        *RESOURCE,
        registry=registry,
        when=cast("Any", needs_attention),
        cancellation_backoff=2,
        cancellation_timeout=5,
    )
    async def drive(namespace: str | None, name: str, uid: str, stopped: kopf.DaemonStopped, **_: Any) -> None:
        assert namespace is not None, "BatchJobs are namespaced"
        await running().loops.run(namespace, name, uid, _Stopped(stopped))

    @kopf.on.event(*RESOURCE, registry=registry)
    async def batchjob_changed(body: Raw, uid: str, type: str | None, **_: Any) -> None:
        metadata = body["metadata"]
        deleting = bool(metadata.get("deletionTimestamp"))
        running().loops.wake_for_spec(uid, metadata.get("generation", 0), deleting=deleting)
        running().sweeper.note(body, gone=type == "DELETED")

    @kopf.on.event("batch", "v1", "jobs", registry=registry)
    @kopf.on.event("", "v1", "pods", registry=registry)
    async def child_changed(labels: Raw, **_: Any) -> None:
        running().loops.wake(labels.get(names.LABEL_BATCHJOB_UID, ""))


class _Stopped:
    """kopf's flag, as a loop wants it."""

    def __init__(self, stopped: kopf.DaemonStopped) -> None:
        self._stopped = stopped

    def is_set(self) -> bool:
        return bool(self._stopped)

    def wait(self) -> Awaitable[object]:
        return asyncio.ensure_future(cast("Awaitable[object]", self._stopped.wait()))


_PROTOCOL: type[Stopped] = _Stopped
