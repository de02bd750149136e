"""The running operator: its parts, put together."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from batchwright.controller.apply import Applier
from batchwright.controller.gather import Gatherer
from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.poll import Poller
from batchwright.controller.settings import Settings
from batchwright.controller.sweeper import Sweeper
from batchwright.kube.batchjobs import BatchJobs
from batchwright.kube.children import Children
from batchwright.kube.connection import Connection
from batchwright.kube.events import Events

logger = logging.getLogger(__name__)


class NotInstalled(Exception):  # noqa: N818
    """The API server doesn't know BatchJobs."""


@dataclass(slots=True)
class Operator:
    """Started by `start`, ended by `stop`."""

    health: Health
    loops: Loops
    sweeper: Sweeper
    poller: Poller
    sweeping: "asyncio.Task[None]"

    @classmethod
    async def start(cls, settings: Settings, health: Health, before_write: Callable[[], None] | None = None) -> Self:
        """Connect and start what runs beside the loops. `before_write` may refuse each write to the cluster.

        Raises:
            KubernetesError: the API server doesn't answer.
            NotInstalled: the CRD is missing.
        """
        connection = await asyncio.to_thread(
            Connection.open, connections=settings.concurrency, before_write=before_write
        )
        batchjobs, children = BatchJobs(connection), Children(connection)
        if not await asyncio.to_thread(batchjobs.is_installed):
            raise NotInstalled("the CRD of BatchJobs is missing: kubectl apply -f crds/batchjobs.yaml")
        cluster = settings.cluster_id
        if cluster is None:
            cluster = await asyncio.to_thread(children.cluster_identity)
        poller = Poller(settings)
        loops = Loops(
            gatherer=Gatherer(batchjobs, children, settings),
            applier=Applier(batchjobs, children),
            events=Events(connection),
            poller=poller,
            health=health,
            settings=settings,
            cluster=cluster,
        )
        sweeper = Sweeper(batchjobs, loops, health, settings)
        sweeping = asyncio.create_task(sweeper.run(), name="sweeper")
        logger.info("operator started for cluster %s, worker image %s", cluster, settings.worker_image)
        return cls(health, loops, sweeper, poller, sweeping)

    async def stop(self) -> None:
        """End everything."""
        self.sweeping.cancel()
        await asyncio.gather(self.sweeping, return_exceptions=True)
        await self.poller.close()
        self.loops.close()
