"""Rounds, for as long as this replica holds the Lease."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from batchwright.election.candidate import Timing
from batchwright.election.leadership import Leadership, LeaseStore
from batchwright.kube.errors import KubernetesError
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

LEASE_NAME: Final = "batchwright-gateway"
TIMING: Final = Timing()
_RELEASE_SECONDS: Final = 5.0

MayAct = Callable[[], None]
"""Called before each change; raises KubernetesError where this replica doesn't hold the Lease any more."""


class KeeperLoop:
    """A thread that takes part in the election, again after each loss, and makes rounds while it leads."""

    def __init__(
        self,
        lease: LeaseStore,
        identity: str,
        make_round: Callable[[MayAct], None],
        *,
        interval: float,
        timing: Timing = TIMING,
    ) -> None:
        """interval: seconds from the end of a round to the next one."""
        self._lease = lease
        self._identity = identity
        self._make_round = make_round
        self._interval = interval
        self._timing = timing
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End after the step that is being done, waiting no longer than so; the Lease is given back."""
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._take_part()

    def _take_part(self) -> None:
        """Until the Lease is lost, or the end."""
        lost = threading.Event()

        def end(reason: str) -> None:
            logger.warning("%s: another replica may do the rounds", reason)
            lost.set()

        election = Leadership(self._lease, self._identity, self._timing, end=end)
        election.start(lambda: None)
        try:
            while not (self._stopping.is_set() or lost.is_set()):
                if election.leads():
                    self._round(election)
                    self._stopping.wait(self._interval)
                else:
                    self._stopping.wait(self._timing.retry_period)
        finally:
            election.release(_RELEASE_SECONDS)

    def _round(self, election: Leadership) -> None:
        def may_act() -> None:
            if self._stopping.is_set():
                raise Stopped
            election.check()

        try:
            self._make_round(may_act)
        except Stopped:
            return
        except (KubernetesError, StorageError) as error:
            logger.warning("a round was not finished: %s; the next one goes on", error)
        except Exception:
            logger.exception("a round failed; the next one goes on")


class Stopped(Exception):  # noqa: N818
    """The process ends."""
