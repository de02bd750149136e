"""One round over everything that the gateway keeps."""

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, TypeVar

from batchwright.gateway.batches.current import current_of_many
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.deletion import remove_expired
from batchwright.gateway.files.readers import inputs_in_use, inputs_of
from batchwright.gateway.keeper.due import Schedule, batch_is_due, file_is_due
from batchwright.gateway.keeper.loop import MayAct
from batchwright.gateway.keeper.remains import remove_remains
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.idempotency_record import expires_at
from batchwright.gateway.records.record_store import RecordNotDeleted
from batchwright.kube.errors import KubernetesError
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

T = TypeVar("T")
_BATCHES_AT_ONCE: Final = 100
_FILES_AT_ONCE: Final = 1000
_BETWEEN_REMAINS: Final = timedelta(hours=1)


class Rounds:
    """Makes rounds. What it remembers from one to the next saves reading, and is found again by reading."""

    def __init__(self, gateway: Gateway) -> None:
        keep = gateway.settings.keep_batches
        self._gateway = gateway
        self._files = Schedule(gateway.files.get, file_is_due)
        self._batches = Schedule(gateway.batches.get, lambda record: batch_is_due(record, keep))
        self._idempotency = Schedule(gateway.idempotency.get, expires_at)
        self._remains_due = gateway.clock()

    def make(self, may_act: MayAct) -> None:
        """One round.

        Raises:
            StorageError, KubernetesError, OSError: a listing failed, or the Lease is lost. What fails for one record
                alone is logged, and tried again in the next round.
        """
        self._look_after_batches(may_act)
        self._expire_files(may_act)
        self._forget_keys(may_act)
        self._remove_remains(may_act)

    def _look_after_batches(self, may_act: MayAct) -> None:
        """Create what a crash kept from being created, archive what has ended, forget what was kept for long enough."""
        gateway = self._gateway
        due = self._batches.due(gateway.batches.entries(), gateway.clock())
        for _, of_tenant in itertools.groupby(due, key=lambda stored: stored.record.namespace):
            for some in _chunks(of_tenant, _BATCHES_AT_ONCE):
                may_act()
                live = [stored for stored in some if stored.record.ending is None]
                with _tolerated(f"{len(live)} batches"):
                    current_of_many(gateway, live)
                for stored in some:
                    if stored.record.ending is not None:
                        may_act()
                        with _tolerated(stored.record.id):
                            gateway.batches.delete(stored.record.namespace, stored.record.id)

    def _expire_files(self, may_act: MayAct) -> None:
        """One that a live batch reads stays until that has ended. A batch that is made now finds no expired file, so
        what is read is asked for once for many.
        """
        gateway = self._gateway
        due = self._files.due(gateway.files.entries(), gateway.clock())
        for namespace, of_tenant in itertools.groupby(due, key=lambda stored: stored.record.namespace):
            for some in _chunks(of_tenant, _FILES_AT_ONCE):
                for record in self._unread(namespace, [stored.record for stored in some]):
                    may_act()
                    with _tolerated(record.id):
                        remove_expired(gateway, record)
                        logger.info("%s of %s has expired and is deleted", record.id, namespace)

    def _unread(self, namespace: str, files: list[FileRecord]) -> list[FileRecord]:
        with _tolerated(f"{len(files)} expired files of {namespace}"):
            in_use = inputs_in_use(self._gateway, namespace)
            return [file for file in files if in_use.isdisjoint(inputs_of(self._gateway, file))]
        return []

    def _forget_keys(self, may_act: MayAct) -> None:
        """A repetition that comes later than a day is a new request."""
        gateway = self._gateway
        for stored in self._idempotency.due(gateway.idempotency.entries(), gateway.clock()):
            may_act()
            with _tolerated("an Idempotency-Key"):
                gateway.idempotency.delete(stored.record.namespace, stored.record.id)

    def _remove_remains(self, may_act: MayAct) -> None:
        """Of uploads that were killed; seldom, since everything is listed for it."""
        now = self._gateway.clock()
        if now >= self._remains_due and remove_remains(self._gateway, may_act):
            self._remains_due = now + _BETWEEN_REMAINS


@contextmanager
def _tolerated(what: str) -> Iterator[None]:
    """One record that can't be looked after doesn't keep the others from it: a tenant can write into its BatchJobs and
    its folder what nobody foresaw.
    """
    try:
        yield
    except (ApiError, StorageError, KubernetesError, RecordNotDeleted) as error:
        logger.warning("%s could not be looked after, and will be in the next round: %s", what, error)
    except Exception:
        logger.exception("%s could not be looked after, and will be in the next round", what)


def _chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while some := list(itertools.islice(items, size)):
        yield some
