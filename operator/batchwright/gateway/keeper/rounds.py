"""One round over everything that the gateway keeps."""

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, TypeVar

from batchwright.gateway import ids
from batchwright.gateway.batches.current import current_of_many
from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.files.deletion import delete_file
from batchwright.gateway.keeper.due import Schedule, batch_is_due, file_is_due
from batchwright.gateway.keeper.loop import MayAct
from batchwright.gateway.records.idempotency_record import expires_at
from batchwright.gateway.records.record_store import RecordNotDeleted
from batchwright.kube.errors import KubernetesError
from batchwright.storage.errors import StorageError

logger = logging.getLogger(__name__)

T = TypeVar("T")
_BATCHES_AT_ONCE: Final = 100


class Rounds:
    """Makes rounds. What it remembers from one to the next saves reading, and is found again by reading."""

    def __init__(self, gateway: Gateway) -> None:
        keep = gateway.settings.keep_batches
        self._gateway = gateway
        self._files = Schedule(gateway.files.get, file_is_due)
        self._batches = Schedule(gateway.batches.get, lambda record: batch_is_due(record, keep))
        self._idempotency = Schedule(gateway.idempotency.get, expires_at)

    def make(self, may_act: MayAct) -> None:
        """One round.

        Raises:
            StorageError, KubernetesError: a listing failed, or the Lease is lost. What fails for one record alone is
                logged, and tried again in the next round.
        """
        self._look_after_batches(may_act)
        self._expire_files(may_act)
        self._forget_keys(may_act)
        self._abort_uploads(may_act)

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
        """One that a live batch reads stays until that has ended."""
        gateway = self._gateway
        for stored in self._files.due(gateway.files.entries(), gateway.clock()):
            may_act()
            with _tolerated(stored.record.id):
                try:
                    delete_file(gateway, stored)
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                    continue
                logger.info("%s of %s has expired and is deleted", stored.record.id, stored.record.namespace)

    def _forget_keys(self, may_act: MayAct) -> None:
        """A repetition that comes later than a day is a new request."""
        gateway = self._gateway
        for stored in self._idempotency.due(gateway.idempotency.entries(), gateway.clock()):
            may_act()
            with _tolerated("an Idempotency-Key"):
                gateway.idempotency.delete(stored.record.namespace, stored.record.id)

    def _abort_uploads(self, may_act: MayAct) -> None:
        """What replicas that were killed had begun to upload; each has its time in its id."""
        gateway = self._gateway
        oldest = gateway.clock() - gateway.settings.upload_deadline
        for namespace in sorted(self._files.namespaces | self._batches.namespaces):
            may_act()
            folder = gateway.tenant(namespace)

            def is_old(key: str, prefix: str = folder.prefix) -> bool:
                name = key.removeprefix(prefix)
                return ids.is_file_id(name) and ids.created_at(name) < oldest

            folder.store.abort_uploads(folder.prefix, is_old, begun_before=oldest)


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
