"""Records in object storage: one JSON object each, at `<prefix><tenant>/<id>.json`.

Ids sort by creation, the newest first, and so do listings. Every change names the version that it replaces, so that of
two replicas one loses and looks again. A listing tells ETags, by which decoded records are kept from one request to the
next: a record that hasn't changed is read once.
"""

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from operator import gt, itemgetter, lt
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from batchwright.gateway.recent import RecentValues
from batchwright.storage.errors import NotFound, PreconditionFailed
from batchwright.storage.protocol import ObjectInfo, ObjectStore

READERS: Final = 16
KEPT: Final = 20_000
"""Records kept in memory, of a few hundred bytes each."""
_SUFFIX: Final = ".json"


R = TypeVar("R", bound=Struct)


class Exists(Exception):  # noqa: N818
    """There is a record of this id already, perhaps from an earlier attempt of the same request."""


class Changed(Exception):  # noqa: N818
    """The record was changed or deleted since it was read: read it again."""


class RecordNotDeleted(Exception):  # noqa: N818
    """The storage refused to delete a record."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[R]):
    """A record and the version that was read."""

    record: R
    etag: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as a listing tells of it, without its contents."""

    namespace: str
    identity: str
    etag: str


class RecordStore(Generic[R]):
    """All records of one kind. Methods block, and raise StorageError beside what they name."""

    def __init__(self, store: ObjectStore, prefix: str, kind: type[R], *, kept: int = KEPT) -> None:
        """prefix: key under which they lie, with its slash."""
        self._store = store
        self._prefix = prefix
        self._kind = kind
        self._kept: RecentValues[tuple[str, str], R] = RecentValues(kept)

    def create(self, namespace: str, identity: str, record: R) -> Stored[R]:
        """Write a record that must be new. Raises Exists."""
        try:
            info = self._store.write(self._key(namespace, identity), msgspec.json.encode(record), if_none_match=True)
        except PreconditionFailed as error:
            found = self.get(namespace, identity)
            if found is not None and found.record == record:  # our own write, whose answer was lost
                return found
            raise Exists(identity) from error
        return Stored(record, info.etag)

    def get(self, namespace: str, identity: str) -> Stored[R] | None:
        """One record; None where there is none."""
        try:
            found = self._store.fetch(self._key(namespace, identity))
        except NotFound:
            return None
        return Stored(self._decode(found.data), found.info.etag)

    def replace(self, namespace: str, identity: str, before: Stored[R], record: R) -> Stored[R]:
        """Write a record over the version that was read. Raises Changed."""
        try:
            info = self._store.write(self._key(namespace, identity), msgspec.json.encode(record), if_match=before.etag)
        except (PreconditionFailed, NotFound) as error:
            found = self.get(namespace, identity)
            if found is not None and found.record == record:
                return found
            raise Changed(identity) from error
        return Stored(record, info.etag)

    def delete(self, namespace: str, identity: str) -> None:
        """Delete a record, if it is there. Raises the failure where it can't be."""
        for failure in self._store.delete([self._key(namespace, identity)]):
            raise RecordNotDeleted(f"{failure.key}: {failure.reason}")

    def list(
        self, namespace: str, *, after: str | None = None, oldest_first: bool = False
    ) -> Generator[Stored[R], None, None]:
        """A tenant's records, the newest first, those after an id; read as far as they are asked for.

        oldest_first: the other way round. All keys are read before the first record.
        """
        folder = f"{self._prefix}{namespace}/"
        start = None if after is None else f"{folder}{after}{_SUFFIX}"
        if not oldest_first:
            return self._read_ahead(self._store.list(folder, start_after=start))
        infos = [info for info in self._store.list(folder) if start is None or info.key < start]
        return self._read_ahead(reversed(infos))

    def list_all(self, *, after: str | None = None, oldest_first: bool = False) -> Generator[Stored[R], None, None]:
        """All tenants' records, the newest first, or the oldest. Their keys are all read before the first one."""
        named = sorted(
            ((info.key.rpartition("/")[2], info) for info in self._store.list(self._prefix)),
            key=itemgetter(0),
            reverse=oldest_first,
        )
        start = None if after is None else f"{after}{_SUFFIX}"
        behind = gt if not oldest_first else lt
        return self._read_ahead(info for name, info in named if start is None or behind(name, start))

    def entries(self, namespace: str | None = None, *, after: str | None = None) -> Iterator[Entry]:
        """Records without their contents, page by page: all tenants', or those of one that come after an id."""
        folder = self._prefix if namespace is None else f"{self._prefix}{namespace}/"
        start = None if after is None else f"{folder}{after}{_SUFFIX}"
        for info in self._store.list(folder, start_after=start):
            owner, _, name = info.key.removeprefix(self._prefix).partition("/")
            if name.endswith(_SUFFIX):
                yield Entry(owner, name.removesuffix(_SUFFIX), info.etag)

    def find(self, identity: str) -> Stored[R] | None:
        """A record by its id alone, of whatever tenant; for administrators. All keys are read."""
        name = f"/{identity}{_SUFFIX}"
        for info in self._store.list(self._prefix):
            if info.key.endswith(name):
                return self._fetch(info)
        return None

    def _read_ahead(self, infos: Iterable[ObjectInfo]) -> Generator[Stored[R], None, None]:
        """Records in order, some of them read at once."""
        with ThreadPoolExecutor(READERS) as readers:
            keys = iter(infos)
            while some := list(islice(keys, READERS)):
                for stored in readers.map(self._fetch, some):
                    if stored is not None:
                        yield stored

    def _fetch(self, info: ObjectInfo) -> Stored[R] | None:
        kept = self._kept.get((info.key, info.etag))
        if kept is not None:
            return Stored(kept, info.etag)
        try:
            found = self._store.fetch(info.key)
        except NotFound:  # deleted since it was listed
            return None
        stored = Stored(self._decode(found.data), found.info.etag)
        self._kept.put((info.key, stored.etag), stored.record)
        return stored

    def _decode(self, data: bytes) -> R:
        return msgspec.json.decode(data, type=self._kind)

    def _key(self, namespace: str, identity: str) -> str:
        """Both are checked by the caller: a namespace's name, and an id of `ids`."""
        return f"{self._prefix}{namespace}/{identity}{_SUFFIX}"
