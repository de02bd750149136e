"""Whether the operator does its work: what the liveness and readiness probes ask.

A process can live while its watch is dead or a loop hangs. So every loop says when it will be back, and every sweep
over all BatchJobs compares those that are active with the loops that run. An operator that waits for the Lease has
neither: it does its work while it can read the Lease.
"""

import time
from collections.abc import Callable, Iterable

_PASS_SECONDS = 180.0
"""A pass makes a few calls, each bounded by 35 s."""
_LEASE_SECONDS = 60.0
"""The Lease is looked at every few seconds; longer than this, and the API is away."""
_MISSING_SWEEPS = 3
"""A BatchJob gets its loop a moment after it is listed; one that has none in three sweeps is not watched."""


class Health:
    """Keeps what the probes need. Called from the event loop; `ready` and `looked` from any thread."""

    def __init__(self, sweep_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._due: dict[str, float] = {}
        self._missing: dict[str, int] = {}
        self._swept_at: float | None = None
        self._looked_at: float | None = None
        self._waiting = False
        self._started_at = clock()

    def waits_for_lease(self) -> None:
        """Another operator works, or may: no BatchJob is looked at."""
        self._waiting = True

    def looked(self) -> None:
        """The Lease was read, and taken or renewed where it was this process's turn."""
        self._looked_at = self._clock()

    def works(self) -> None:
        """From now on BatchJobs are looked at."""
        self._waiting = False
        self._started_at = self._clock()

    def loop_waits(self, uid: str, seconds: float) -> None:
        """A loop begins its first pass, or has finished one and comes back after so long."""
        self._due[uid] = self._clock() + seconds + _PASS_SECONDS

    def loop_ended(self, uid: str) -> None:
        """A loop is no more."""
        self._due.pop(uid, None)

    def swept(self, active: Iterable[str], with_loop: Iterable[str]) -> None:
        """All BatchJobs were listed: these are active, and these have a loop."""
        running = set(with_loop)
        self._missing = {uid: self._missing.get(uid, 0) + 1 for uid in active if uid not in running}
        self._swept_at = self._clock()

    def problem(self) -> str | None:
        """Why the process should be restarted; None while it works."""
        now = self._clock()
        overdue = [uid for uid, due in self._due.items() if now > due]
        if overdue:
            return f"{len(overdue)} loops hang, such as that of BatchJob {overdue[0]}"
        unwatched = [uid for uid, sweeps in self._missing.items() if sweeps >= _MISSING_SWEEPS]
        if unwatched:
            return f"{len(unwatched)} active BatchJobs have no loop, such as {unwatched[0]}: the watch is dead"
        too_long = 5 * self._sweep_seconds + _PASS_SECONDS
        if self._waiting:
            looked_at = self._started_at if self._looked_at is None else self._looked_at
            return "the Lease could not be read, or not be taken, for too long" if now - looked_at > too_long else None
        if now - (self._started_at if self._swept_at is None else self._swept_at) > too_long:
            return "BatchJobs could not be listed for too long"
        return None

    def ready(self) -> bool:
        """Whether the Kubernetes API answered lately. Until the first sweep, its answer about the Lease counts."""
        if self._swept_at is not None:
            return self._clock() - self._swept_at <= 2 * self._sweep_seconds + 60
        return self._looked_at is not None and self._clock() - self._looked_at <= _LEASE_SECONDS
