"""Holding the Lease: of several operators, the one that holds it works, and the others wait.

Two threads. One keeps the Lease, in calls with short time limits. The other makes no calls, and ends the process when
the Lease is lost or could not be renewed in time: there is no way back from leading but a new start, so nothing of a
leader that was frozen goes on. The rules are `candidate`'s.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from batchwright.election.candidate import Candidate, Step, Timing
from batchwright.election.lease import Lease, parse_lease, written
from batchwright.kube import errors
from batchwright.kube.connection import RawObject

logger = logging.getLogger(__name__)

LOST_EXIT_CODE = 3
_LOOKS_PER_PERIOD = 2
"""Who waits looks more often than a leader renews: a read costs little, and a Lease given back is taken sooner."""
_STEPS_IN_ROUND = 4
"""Look, claim, and once more after a conflict."""
_WATCH_SECONDS = 0.5
_LAST_WORDS_SECONDS = 0.3


def boot_time() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def identity_of(environment: Mapping[str, str]) -> str:
    """A name that no other living process has.

    The pod's, where it is told: the kubelet starts a pod's container anew only when the one before has ended, and so
    the new one may go on with the Lease of the old one.
    """
    pod, uid = environment.get("POD_NAME"), environment.get("POD_UID")
    return f"{pod}_{uid}" if pod and uid else f"{socket.gethostname()}_{uuid.uuid4()}"


def end_process(reason: str) -> None:
    """End this process now, without any cleaning up: that would take time, and might still write."""
    # In a thread, since a log that blocks must not keep the process alive.
    words = threading.Thread(target=logger.critical, args=("%s: this process ends", reason), daemon=True)
    words.start()
    words.join(_LAST_WORDS_SECONDS)
    os._exit(LOST_EXIT_CODE)


class LeaseStore(Protocol):
    """One Lease in the cluster."""

    def read(self) -> RawObject | None:
        """The Lease; None where there is none."""

    def create(self, spec: Mapping[str, object]) -> RawObject:
        """Create it; raises errors.Conflict where there is one."""

    def replace(self, version: str, spec: Mapping[str, object]) -> RawObject:
        """Write over this very version; raises errors.Conflict or errors.NotFound where that is gone."""


class Leadership:
    """One process's part in the election. `start` once, `release` at the end."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        timing: Timing,
        *,
        looked: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = boot_time,
        end: Callable[[str], None] = end_process,
    ) -> None:
        self._store = store
        self._timing = timing
        self._candidate = Candidate(identity, timing)
        self._looked = looked
        self._clock = clock
        self._end = end
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._acquired: Callable[[], object] = lambda: None
        self._keeper: threading.Thread | None = None
        self._told: str | None = None
        self._error = ""

    def start(self, acquired: Callable[[], object]) -> None:
        """Take part. `acquired` is called once, from a thread, when this process leads."""
        self._acquired = acquired
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._keeper.start()
        threading.Thread(target=self._watch, name="lease-deadline", daemon=True).start()

    def leads(self) -> bool:
        """Whether this process may act now."""
        return self._candidate.leads(self._clock())

    def check(self) -> None:
        """Called right before each write.

        Raises:
            errors.Unavailable: this process doesn't lead any more.
        """
        if not self.leads():
            raise errors.Unavailable("this process doesn't hold the Lease any more")

    def release(self, seconds: float) -> bool:
        """Stop acting, and give the Lease back; whether it was. Waits no longer than so, and for two calls."""
        self._stopping.set()
        if self._keeper is not None:
            self._keeper.join(seconds)
        led = self._candidate.leads_until is not None
        self._set(self._candidate.resigned())
        if not led or self._keeper is None or self._keeper.is_alive():
            return False
        try:
            self._give_back()
        except errors.KubernetesError as error:
            logger.warning("the Lease %s could not be given back: %s", self._store, error)
            return False
        logger.info("gave the Lease %s back", self._store)
        return True

    def _keep(self) -> None:
        while not self._stopping.is_set():
            try:
                self.round()
                self._error = ""
            except errors.KubernetesError as error:
                # Once for each cause: who waits looks every second.
                level = logging.DEBUG if str(error) == self._error else logging.WARNING
                logger.log(level, "the Lease %s: %s; trying again", self._store, error)
                self._error = str(error)
            except Exception:
                logger.exception("the Lease %s: trying again", self._store)
            leading = self._candidate.leads_until is not None
            self._stopping.wait(self._timing.retry_period / (1 if leading else _LOOKS_PER_PERIOD))

    def round(self) -> None:
        """Look, and claim or renew where it is our turn.

        Raises:
            KubernetesError: no answer, or a refusal. What became of a claim is seen by the next look.
        """
        self._set(self._candidate.next_round())
        for _ in range(_STEPS_IN_ROUND):
            match self._candidate.step(self._clock()):
                case Step.LOOK:
                    self._look()
                case Step.CLAIM:
                    if self._claim():
                        break
                case Step.WAIT:
                    break
        # Not before: who can see a free Lease, and may not take it, must not pass for well.
        self._looked()

    def _look(self) -> None:
        raw = self._store.read()
        self._set(self._candidate.saw(parse_lease(raw) if raw is not None else None, self._clock()))
        lease = self._candidate.lease
        if lease is not None and lease.holder not in (self._told, self._candidate.identity, ""):
            self._told = lease.holder
            logger.info("the Lease %s is held by %s: waiting", self._store, lease.holder)

    def _claim(self) -> bool:
        """Whether the server took it."""
        candidate, sent_at = self._candidate, self._clock()
        self._set(candidate.doubted())
        try:
            stored = self._write(candidate, candidate.claim())
        except (errors.Conflict, errors.NotFound) as error:
            if candidate.missing and isinstance(error, errors.NotFound):
                raise  # there is no such namespace
            return False
        self._won(candidate.won(stored, sent_at, self._clock()), first=candidate.leads_until is None)
        return True

    def _won(self, candidate: Candidate, *, first: bool) -> None:
        self._set(candidate)
        if first and candidate.leads_until is not None:
            logger.info("took the Lease %s as %s: this process works", self._store, candidate.identity)
            self._acquired()

    def _give_back(self) -> None:
        try:
            self._write(self._candidate, self._candidate.release())
        except errors.Conflict:
            # The last renewal may have been taken without an answer.
            raw = self._store.read()
            seen = self._candidate.saw(parse_lease(raw) if raw is not None else None, self._clock())
            if seen.lease is not None and not seen.missing and seen.lease.holder == seen.identity:
                self._write(seen, seen.release())

    def _write(self, candidate: Candidate, lease: Lease) -> Lease:
        spec = written(lease, datetime.now(UTC))
        if candidate.lease is None or candidate.missing:
            return parse_lease(self._store.create(spec))
        return parse_lease(self._store.replace(candidate.lease.version, spec))

    def _set(self, candidate: Candidate) -> None:
        with self._changed:
            before, self._candidate = self._candidate, candidate
            self._changed.notify_all()
        if before.leads_until is not None and candidate.leads_until is None and not self._stopping.is_set():
            holder = candidate.lease.holder if candidate.lease else ""
            self._end(
                self._too_late() if holder == candidate.identity else f"the Lease {self._store} is held by {holder}"
            )

    def _watch(self) -> None:
        """End the process at the deadline, whatever the other threads do."""
        with self._changed:
            while not self._stopping.is_set():
                until = self._candidate.leads_until
                left = _WATCH_SECONDS if until is None else until - self._clock()
                if left <= 0:
                    break
                # Short waits: they may be counted on a clock that stands still while the machine sleeps.
                self._changed.wait(min(left, _WATCH_SECONDS))
        if not self._stopping.is_set():
            self._end(self._too_late())

    def _too_late(self) -> str:
        return f"the Lease {self._store} could not be renewed within {self._timing.renew_deadline:g} s"
