"""What uploads left behind whose replica was killed: unfinished ones, and bytes whose record was never written.

Such bytes are found by what isn't there, so nothing else may be taken for them: of a tenant's folder only names are
looked at that a gateway gave, by their form and by the time in them, and that are too old to get a record still.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final

from batchwright.gateway.context import Gateway
from batchwright.gateway.identity.namespaces import is_namespace
from batchwright.gateway.ids import FILE_PREFIX, is_file_id, new_file_id
from batchwright.gateway.keeper.tenants import tenants_in_storage
from batchwright.storage.errors import StorageError
from batchwright.storage.location import FILE, Location, parse_location
from batchwright.storage.protocol import ObjectStore

logger = logging.getLogger(__name__)

TIME_TO_PUBLISH: Final = timedelta(hours=1)
"""That an upload may take after its deadline to become a file; clocks of replicas may differ by less."""
_FIRST_GATEWAY: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""No gateway gave an id before. Of names of the same form that others gave, nearly all say an impossible time."""


def remove_remains(gateway: Gateway, may_act: Callable[[], None]) -> bool:
    """Remove what killed uploads left, of all tenants. Gives whether all that was found could be looked at; what could
    not is logged.

    may_act: called before each change; what it raises ends this

    Raises:
        StorageError, OSError: the tenants can't be listed.
    """
    batches = parse_location(gateway.settings.batch_path)
    tenants = list(tenants_in_storage(batches, gateway.root))
    may_act()
    _abort_uploads(gateway, batches, tenants)
    done = True
    for namespace in tenants:
        try:
            _remove_unrecorded(gateway, namespace, may_act)
        except (StorageError, ValueError, OverflowError) as error:  # the latter of a record that is damaged
            logger.warning("what uploads left of %s can't be removed yet: %s", namespace, error)
            done = False
    return done


def _abort_uploads(gateway: Gateway, batches: Location, tenants: list[str]) -> None:
    """Of a bucket all at once, also those of tenants who have nothing else in it."""
    oldest = gateway.clock() - gateway.settings.upload_deadline
    newest, since = _first_id(oldest), _first_id(_FIRST_GATEWAY)

    def is_old(key: str) -> bool:
        namespace, _, name = key.removeprefix(batches.key).partition("/")
        return is_namespace(namespace) and is_file_id(name) and newest < name < since

    places: list[tuple[ObjectStore, str]] = [(gateway.root, batches.key)]
    if batches.scheme == FILE:  # a store for each folder, and temporary files, which don't tell whose they are
        places += [(folder.store, folder.prefix) for folder in map(gateway.tenant, tenants)]
    for store, prefix in places:
        store.abort_uploads(prefix, is_old, begun_before=oldest)


def _remove_unrecorded(gateway: Gateway, namespace: str, may_act: Callable[[], None]) -> None:
    folder = gateway.tenant(namespace)
    newest = _first_id(gateway.clock() - gateway.settings.upload_deadline - TIME_TO_PUBLISH)
    since = _first_id(_FIRST_GATEWAY)
    listed = folder.store.list(folder.key(FILE_PREFIX), start_after=folder.key(newest))
    names = (info.key.removeprefix(folder.prefix) for info in listed)
    uploads = (name for name in takewhile(lambda name: name < since, names) if is_file_id(name))
    recorded = (entry.identity for entry in gateway.files.entries(namespace, after=newest))
    for file_id in only_in_first(uploads, recorded):
        may_act()
        if gateway.files.get(namespace, file_id) is not None:  # a store may list in another order than ours
            continue
        for failure in folder.store.delete([folder.key(file_id)]):
            logger.warning("%s of %s, which has no record, was not deleted: %s", file_id, namespace, failure.reason)
            break
        else:
            logger.info("%s of %s had no record and is deleted: its upload was never answered", file_id, namespace)


def only_in_first(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    """What of two ascending series is in the first alone, read as far as needed. Pure."""
    others = iter(second)
    other = next(others, None)
    for name in first:
        while other is not None and other < name:
            other = next(others, None)
        if name != other:
            yield name


def _first_id(moment: datetime) -> str:
    """That of a file of this very moment which comes before all others; those of files before it come behind."""
    return new_file_id(moment, bytes(10))
