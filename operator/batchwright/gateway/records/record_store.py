"""Records in object storage: one JSON object each, at `<prefix><tenant>/<id>.json`.

Ids sort by creation, the newest first, and so do listings. Every change names the version that it replaces, so that of
two replicas one loses and looks again. A listing tells ETags, by which decoded records are kept from one request to the
next: a record that hasn't changed is read once.

Two versions of the gateway work on the same records while one replaces the other. So a new field has a default, for
records without it, and fields that this version doesn't know stay in a record that it writes again. A record that can't
be read at all doesn't keep others from being listed.
"""

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from operator import gt, itemgetter, lt
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from batchwright.gateway.recent import RecentValues
from batchwright.storage.errors import NotFound, PreconditionFailed
from batchwright.storage.protocol import FetchedObject, ObjectInfo, ObjectStore

READERS: Final = 16
KEPT: Final = 20_000
"""Records kept in memory, of a few hundred bytes each."""
_SUFFIX: Final = ".json"

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Struct)


class Exists(Exception):  # noqa: N818
    """There is a record of this id already, perhaps from an earlier attempt of the same request."""


class Changed(Exception):  # noqa: N818
    """The record was changed or deleted since it was read: read it again."""


class RecordNotDeleted(Exception):  # noqa: N818
    """The storage refused to delete a record."""


class Unreadable(ValueError):  # noqa: N818
    """What is stored is no record of its kind: it is damaged, or of a version whose records this one can't read.

    identity: of the record. The message names the object and the cause.
    """

    def __init__(self, identity: str, uri: str, cause: Exception) -> None:
        super().__init__(f"the record {uri} can't be read: {cause}. Restore it, or remove it")
        self.identity = identity


@dataclass(frozen=True, slots=True)
class Stored(Generic[R]):
    """A record and the version that was read."""

    record: R
    etag: str
    unknown: Mapping[str, msgspec.Raw] = field(default_factory=dict, compare=False, repr=False)
    """Fields of it that another version of the gateway wrote and this one doesn't know."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as a listing tells of it, without its contents."""

    namespace: str
    identity: str
    etag: str


class RecordStore(Generic[R]):
    """All records of one kind. Methods block, and raise StorageError beside what they name.

    Of a record that can't be read, what reads it alone raises Unreadable; lists leave it out, and log it.
    """

    def __init__(self, store: ObjectStore, prefix: str, kind: type[R], *, kept: int = KEPT) -> None:
        """prefix: key under which they lie, with its slash."""
        self._store = store
        self._prefix = prefix
        self._kind = kind
        self._known_fields = {*kind.__struct_encode_fields__, kind.__struct_config__.tag_field}
        self._kept: RecentValues[tuple[str, str], Stored[R]] = RecentValues(kept)
        self._told: RecentValues[tuple[str, str], bool] = RecentValues(kept)

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
        return self._decode(found)

    def replace(self, namespace: str, identity: str, before: Stored[R], record: R) -> Stored[R]:
        """Write a record over the version that was read. Raises Changed."""
        data = _encode(record, before.unknown)
        try:
            info = self._store.write(self._key(namespace, identity), data, if_match=before.etag)
        except (PreconditionFailed, NotFound) as error:
            found = self.get(namespace, identity)
            if found is not None and found.record == record:
                return found
            raise Changed(identity) from error
        return Stored(record, info.etag, before.unknown)

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
            keys = (info for info in infos if info.key.endswith(_SUFFIX))
            while some := list(islice(keys, READERS)):
                for stored in readers.map(self._fetch_if_readable, some):
                    if stored is not None:
                        yield stored

    def _fetch_if_readable(self, info: ObjectInfo) -> Stored[R] | None:
        """One that can't be read is logged once for as long as it stays as it is."""
        try:
            return self._fetch(info)
        except Unreadable as error:
            if self._told.get((info.key, info.etag)) is None:
                self._told.put((info.key, info.etag), True)
                logger.error("a list leaves something out: %s", error)  # noqa: TRY400  # it says all there is
            return None

    def _fetch(self, info: ObjectInfo) -> Stored[R] | None:
        kept = self._kept.get((info.key, info.etag))
        if kept is not None:
            return kept
        try:
            found = self._store.fetch(info.key)
        except NotFound:  # deleted since it was listed
            return None
        stored = self._decode(found)
        self._kept.put((info.key, stored.etag), stored)
        return stored

    def _decode(self, found: FetchedObject) -> Stored[R]:
        key = found.info.key
        try:
            record = msgspec.json.decode(found.data, type=self._kind)
            fields = msgspec.json.decode(found.data, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError) as error:
            identity = key.rpartition("/")[2].removesuffix(_SUFFIX)
            raise Unreadable(identity, self._store.uri(key), error) from error
        unknown = {name: value.copy() for name, value in fields.items() if name not in self._known_fields}
        return Stored(record, found.info.etag, unknown)

    def _key(self, namespace: str, identity: str) -> str:
        """Both are checked by the caller: a namespace's name, and an id of `ids`."""
        return f"{self._prefix}{namespace}/{identity}{_SUFFIX}"


def _encode(record: Struct, unknown: Mapping[str, msgspec.Raw]) -> bytes:
    data = msgspec.json.encode(record)
    if not unknown:
        return data
    return msgspec.json.encode(msgspec.json.decode(data, type=dict[str, msgspec.Raw]) | dict(unknown))
