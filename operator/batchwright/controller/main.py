"""`batchwright-operator`: the operator's process. All settings are environment variables, see `settings`."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version

import kopf

from batchwright.controller import handlers, metrics, server
from batchwright.controller.health import Health
from batchwright.controller.operator import Operator
from batchwright.controller.settings import InvalidSettings, Settings
from batchwright.controller.waiting import first_of
from batchwright.election import leadership
from batchwright.election.leadership import Leadership
from batchwright.kube import errors
from batchwright.kube.connection import Connection, TimeLimits
from batchwright.kube.leases import LeaseObject
from batchwright.kube.pod import own_namespace

logger = logging.getLogger(__name__)
LEASE_NAME = "batchwright-operator"
_NAMESPACE_OF_MANIFESTS = "batchwright-system"


def main() -> int:
    """Run until SIGTERM.

    Exit code 2 for settings that can't be used, 1 where it can't start, 3 for a leader that lost the Lease.
    """
    try:
        settings = Settings.from_environment(os.environ)
    except InvalidSettings as error:
        sys.stderr.write(f"batchwright-operator: {error}\n")
        return 2
    _configure_logging(settings.log_level)
    try:
        asyncio.run(_run(settings))
    except (OSError, errors.KubernetesError) as error:
        logger.critical("the operator can't start: %s", error)
        return 1
    return 0


async def _run(settings: Settings) -> None:
    """Serve the probes, wait for the Lease, work.

    Raises:
        OSError: a port is taken.
        KubernetesError: there is no way to a cluster.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    health = Health(settings.resync_interval.total_seconds())
    metrics.BUILD.info({"version": version("batchwright")})
    stop_servers: list[Callable[[], None]] = []
    try:
        stop_servers.append(server.start(settings.metrics_port, server.readiness(health)))
        stop_servers.append(server.start(settings.liveness_port, server.liveness(health, loop)))
        pod_namespace = own_namespace()
        if settings.leader_election if settings.leader_election is not None else pod_namespace is not None:
            namespace = settings.lease_namespace or pod_namespace or _NAMESPACE_OF_MANIFESTS
            await _work_while_leading(settings, health, stop, namespace)
        else:
            metrics.LEADER.set(1)
            await _work(settings, health, stop)
    finally:
        for stop_server in stop_servers:
            await asyncio.to_thread(stop_server)


async def _work_while_leading(settings: Settings, health: Health, stop: asyncio.Event, namespace: str) -> None:
    loop, acquired = asyncio.get_running_loop(), asyncio.Event()
    limits = TimeLimits(settings.timing.renew_deadline / 4, settings.timing.renew_deadline / 2)
    connection = await asyncio.to_thread(Connection.open, connections=1, time_limits=limits, retries=False)
    lease = LeaseObject(connection, namespace, LEASE_NAME)
    election = Leadership(lease, leadership.identity_of(os.environ), settings.timing, looked=health.looked)
    health.waits_for_lease()
    metrics.LEADER.set_function(lambda: float(election.leads()))
    election.start(lambda: loop.call_soon_threadsafe(acquired.set))
    try:
        await first_of(acquired.wait(), stop.wait())
        if not stop.is_set():
            health.works()
            await _work(settings, health, stop, election.check)
    finally:
        await asyncio.to_thread(election.release, limits.connect + limits.read)


async def _work(
    settings: Settings, health: Health, stop: asyncio.Event, before_write: Callable[[], None] | None = None
) -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, lambda: Operator.start(settings, health, before_write))
    await kopf.operator(registry=registry, standalone=True, clusterwide=True, stop_flag=stop)


def _configure_logging(level: str) -> None:
    logging.basicConfig(
        level=level, stream=sys.stdout, format="%(asctime)s %(levelname)-7s %(name)s %(message)s", force=True
    )
    if level != "DEBUG":
        for noisy in ("httpx", "httpcore", "urllib3", "kopf.objects", "kopf.activities.probe", "aiohttp.access"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
