"""The one task that looks at all BatchJobs: deletes the finished ones whose time is over, counts them for the metrics,
and tells `Health` which of them should have a loop."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from batchwright.api.status import BatchJobStatus
from batchwright.controller import metrics
from batchwright.controller.core import conditions, retention
from batchwright.controller.core.parsing import Raw, parse_status
from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.settings import Settings
from batchwright.kube import errors
from batchwright.kube.batchjobs import BatchJobs

logger = logging.getLogger(__name__)
_SHORTEST_SLEEP = 1.0


class Sweeper:
    """Lists all BatchJobs at every resync interval; what a watch brings in between is taken by `note`."""

    def __init__(
        self,
        batchjobs: BatchJobs,
        loops: Loops,
        health: Health,
        settings: Settings,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._batchjobs = batchjobs
        self._loops = loops
        self._health = health
        self._interval = settings.resync_interval
        self._clock = clock
        self._due: dict[str, tuple[datetime, str, str]] = {}
        self._noted = asyncio.Event()

    def note(self, raw: Raw, *, gone: bool = False) -> None:
        """Take note of when a BatchJob is to be deleted."""
        metadata = raw["metadata"]
        status = _status(raw)
        due = retention.delete_at(status, ttl(raw)) if status is not None and not gone else None
        if due is None or metadata.get("deletionTimestamp"):
            self._due.pop(metadata["uid"], None)
        elif self._due.get(metadata["uid"], (None,))[0] != due:
            self._due[metadata["uid"]] = (due, metadata["namespace"], metadata["name"])
            self._noted.set()

    async def run(self) -> None:
        """Sweep for ever."""
        next_sweep = self._clock()
        while True:
            try:
                if self._clock() >= next_sweep:
                    next_sweep = self._clock() + self._interval
                    await self.sweep()
                await self.delete_due()
            except errors.KubernetesError as error:
                logger.warning("the sweep over all BatchJobs failed: %s; trying again", error)
                self._due.clear()  # until the next sweep: nothing is deleted without an API server
            except Exception:
                logger.exception("the sweep over all BatchJobs failed; trying again")
            await self._sleep(next_sweep)

    async def sweep(self) -> None:
        """List all BatchJobs once."""
        items = await self._loops.in_thread(self._batchjobs.list)
        known = [(raw, status) for raw in items if (status := _status(raw)) is not None]
        self._due.clear()
        for raw, _ in known:
            self.note(raw)
        metrics.batchjobs_listed((raw["metadata"]["namespace"], status) for raw, status in known)
        active = [raw["metadata"]["uid"] for raw, status in known if is_active(raw, status)]
        self._health.swept(active, self._loops.active)

    async def delete_due(self) -> None:
        """Delete the BatchJobs whose time is over."""
        now = self._clock()
        for uid, (due, namespace, name) in list(self._due.items()):
            if due > now:
                continue
            try:
                await self._loops.in_thread(self._batchjobs.delete, namespace, name, uid)
                logger.info("%s/%s: deleted, ttlSecondsAfterFinished is over", namespace, name)
            except (errors.NotFound, errors.Conflict):
                pass
            except errors.KubernetesError as error:
                if not errors.is_verdict(error, creating=False):
                    raise
                logger.warning("%s/%s: ttlSecondsAfterFinished is over, but: %s", namespace, name, error)
            self._due.pop(uid, None)  # the next sweep notes those that are still there

    async def _sleep(self, next_sweep: datetime) -> None:
        self._noted.clear()
        until = min([next_sweep, *(due for due, _, _ in self._due.values())])
        seconds = max(_SHORTEST_SLEEP, (until - self._clock()) / timedelta(seconds=1))
        try:
            async with asyncio.timeout(seconds):
                await self._noted.wait()
        except TimeoutError:
            pass


def ttl(raw: Raw) -> int | None:
    """spec.ttlSecondsAfterFinished, even where the rest of the spec can't be read."""
    value = (raw.get("spec") or {}).get("ttlSecondsAfterFinished")
    return value if isinstance(value, int) else None


def is_active(raw: Raw, status: BatchJobStatus) -> bool:
    """Whether a BatchJob should have a loop."""
    return not raw["metadata"].get("deletionTimestamp") and not conditions.is_finished(status)


def _status(raw: Mapping[str, object]) -> BatchJobStatus | None:
    try:
        return parse_status(raw)
    except ValidationError:
        return None
