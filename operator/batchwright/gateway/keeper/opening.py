"""The keeper of a process: its Lease, and the rounds that it makes while it holds it."""

from collections.abc import Mapping
from typing import Final

from batchwright.election.leadership import identity_of
from batchwright.gateway.context import Gateway
from batchwright.gateway.keeper.loop import LEASE_NAME, TIMING, KeeperLoop
from batchwright.gateway.keeper.rounds import Rounds
from batchwright.kube.connection import Connection, TimeLimits
from batchwright.kube.leases import LeaseObject

_LIMITS: Final = TimeLimits(TIMING.renew_deadline / 4, TIMING.renew_deadline / 2)
"""A call for the Lease that takes longer comes too late anyway."""


def open_keeper(gateway: Gateway, namespace: str, environment: Mapping[str, str]) -> KeeperLoop:
    """A keeper that has not begun. `namespace`: of the Lease, that of the gateway.

    Raises KubernetesError where there is no way to a cluster.
    """
    connection = Connection.open(connections=1, time_limits=_LIMITS, retries=False)
    return KeeperLoop(
        LeaseObject(connection, namespace, LEASE_NAME),
        identity_of(environment),
        Rounds(gateway).make,
        interval=gateway.settings.expiry_interval.total_seconds(),
    )
