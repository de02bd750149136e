"""The loop of one BatchJob: gather, reconcile, apply, wait; woken by what happens in the cluster.

Whatever goes wrong in a pass is logged and tried again with backoff: no error ends a loop, since nobody would start it
again.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import ParamSpec, Protocol, TypeVar

from batchwright.controller import metrics
from batchwright.controller.apply import Applier
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.plan_of_actions import Plan, Wait
from batchwright.controller.core.reconcile import reconcile
from batchwright.controller.gather import Gatherer
from batchwright.controller.health import Health
from batchwright.controller.memory import Memory
from batchwright.controller.poll import Poller
from batchwright.controller.settings import Settings
from batchwright.controller.waiting import first_of
from batchwright.kube import errors
from batchwright.kube.events import Events, Subject

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_COALESCE_SECONDS = 0.2
"""One change in the cluster is often followed by others: they share a pass."""
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
"""An API server that is back after minutes finds everybody there within this time."""
_LONGEST_RETRY_AFTER = 120.0


class Stopped(Protocol):
    """Tells a loop to end."""

    def is_set(self) -> bool:
        """Whether it is to end."""

    def wait(self) -> Awaitable[object]:
        """Wait until it is to end."""


class Loops:
    """The loops of all active BatchJobs."""

    def __init__(
        self,
        *,
        gatherer: Gatherer,
        applier: Applier,
        events: Events,
        poller: Poller,
        health: Health,
        settings: Settings,
        cluster: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._gatherer = gatherer
        self._applier = applier
        self._events = events
        self._poller = poller
        self._health = health
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="kubernetes")
        self._memories: dict[str, Memory] = {}

    @property
    def active(self) -> frozenset[str]:
        """UIDs of the BatchJobs that have a loop."""
        return frozenset(self._memories)

    def wake(self, uid: str) -> None:
        """Something happened to a BatchJob or one of its children: read anew."""
        memory = self._memories.get(uid)
        if memory is not None:
            memory.wake.set()

    def wake_for_spec(self, uid: str, generation: int, *, deleting: bool) -> None:
        """A BatchJob changed: of interest where its spec did. Our own writes of its status wake nobody."""
        memory = self._memories.get(uid)
        if memory is not None and (deleting or generation != memory.generation):
            memory.wake.set()

    async def run(self, namespace: str, name: str, uid: str, stopped: Stopped) -> None:
        """Drive one BatchJob until told to stop."""
        memory = self._memories[uid] = Memory()
        self._health.loop_waits(uid, 0)  # the first pass may hang as well as any other
        try:
            while not stopped.is_set():
                if memory.wake.is_set():
                    memory.reading = None
                    memory.wake.clear()
                delay = await self._guarded_pass(namespace, name, uid, memory)
                self._health.loop_waits(uid, delay)
                await first_of(stopped.wait(), memory.wake.wait(), seconds=delay)
                if memory.wake.is_set() and not stopped.is_set():
                    await first_of(stopped.wait(), seconds=_COALESCE_SECONDS)
        finally:
            self._health.loop_ended(uid)
            if self._memories.get(uid) is memory:
                del self._memories[uid]

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a blocking call to the API, as many at once as the settings say."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Let go of the threads; calls in flight end by their own time limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _guarded_pass(self, namespace: str, name: str, uid: str, memory: Memory) -> float:
        """One pass, and the seconds until the next."""
        asked = 0.0
        try:
            with metrics.RECONCILE_SECONDS.time():
                wait = await self._pass(namespace, name, uid, memory)
        except (errors.NotFound, errors.Conflict) as error:
            # Something was deleted or changed since it was read. A BatchJob that is gone is noticed by the watch.
            logger.debug("%s/%s: %s", namespace, name, error)
            memory.reading = None
            return _FIRST_BACKOFF
        except errors.KubernetesError as error:
            logger.warning("%s/%s: %s; trying again", namespace, name, error)
            asked = min(_LONGEST_RETRY_AFTER, error.retry_after or 0.0)
        except Exception:
            logger.exception("%s/%s: the pass failed; trying again", namespace, name)
        else:
            memory.errors = 0
            resync = self._settings.resync_interval.total_seconds()
            return min(resync, wait.after.total_seconds()) if wait else resync
        metrics.RECONCILE_ERRORS.inc()
        memory.reading = None
        memory.errors += 1
        backoff = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(memory.errors - 1, 10))
        return max(asked, backoff) * random.uniform(1.0, 1.3)  # noqa: S311

    async def _pass(self, namespace: str, name: str, uid: str, memory: Memory) -> Wait | None:
        now = self._clock()
        if memory.reading is None or now - memory.reading.at >= self._settings.resync_interval:
            reading = await self.in_thread(self._gatherer.read, namespace, name, uid, now)
            if reading is None:
                return None
            memory.remember(reading)
        await self._poller.poll(memory, now)
        observed = memory.observed(self._cluster)
        plan = reconcile(observed, now, self._settings)
        await self._apply(observed, plan, now, memory)
        if plan.wait is None or plan.wait.refresh or plan.actions:
            memory.reading = None
        return plan.wait

    async def _apply(self, observed: Observed, plan: Plan, now: datetime, memory: Memory) -> None:
        identity = observed.identity
        memory.refusals = await self.in_thread(self._applier.act, observed, plan, now) if plan.actions else ()
        if plan.status is None:
            return
        assert memory.reading is not None, "a pass begins with a reading"
        version = memory.reading.version
        stored = await self.in_thread(self._applier.write_status, observed, version, plan.status)
        memory.last_status_write = now
        memory.reading = replace(memory.reading, batchjob=stored)
        metrics.status_written(identity.namespace, observed.status, plan.status)
        if plan.status.phase != observed.status.phase:
            logger.info("%s/%s: %s: %s", identity.namespace, identity.name, plan.status.phase, plan.status.message)
        subject = Subject(identity.namespace, identity.name, identity.uid)
        for notice in plan.notices:
            try:
                await self.in_thread(self._events.post, subject, notice.severity, notice.reason, notice.message, now)
            except errors.KubernetesError as error:
                # An Event is a convenience: the status has it all.
                logger.warning("%s/%s: no Event %s: %s", subject.namespace, subject.name, notice.reason, error)
