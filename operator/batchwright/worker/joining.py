"""From the files of all shards to the published objects, one for each kind.

A merge that is killed begins anew. What it has published by then is noted, with a digest of what it is made of, and
counts as long as it stands: of three large objects only the one that it died over is joined again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256

import msgspec

from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import RecordError, decode_record, encode_record
from batchwright.batchfile.shard_record import KINDS, JoinedRecord, ShardFile, ShardRecord
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.pieces import pieces_of
from batchwright.worker.published import as_it_stands

logger = logging.getLogger(__name__)

Progressed = Callable[[int, int], None]
"""Called with the bytes joined and the bytes of all."""


def join_all(
    store: ObjectStore,
    layout: WorkLayout,
    records: Sequence[ShardRecord],
    keys: Mapping[str, str],
    *,
    begun: bool,
    progressed: Progressed,
    patience: Patience,
) -> dict[str, ShardFile]:
    """Publish each kind of which there are any lines at its key. `begun`: an earlier attempt has noted what it joined.

    Raises:
        StorageError: the storage can't be used.
    """
    files = {kind: [file for record in records if (file := record.file(kind)) is not None] for kind in KINDS}
    files = {kind: some for kind, some in files.items() if some}
    total = sum(file.bytes for some in files.values() for file in some)
    content = _digest(files)
    published = _standing(store, layout, content, keys) if begun else {}
    joined = sum(file.bytes for file in published.values())

    def count(size: int) -> None:
        nonlocal joined
        joined += size
        progressed(joined, total)

    progressed(joined, total)
    for kind, some in files.items():
        if kind in published:
            continue
        published[kind] = join(store, keys[kind], some, count, patience)
        if len(published) < len(files):  # else the summary follows, and says so
            note = encode_record(JoinedRecord(content, published))
            patience.call(partial(store.write, layout.joined, note))
    return published


def join(
    store: ObjectStore,
    key: str,
    files: Sequence[ShardFile],
    count: Callable[[int], None] | None = None,
    patience: Patience | None = None,
) -> ShardFile:
    """One object from many; the store verifies its size.

    Raises:
        StorageError: a file is gone or changed, or the storage can't be used.
    """
    info = store.join(key, pieces_of(files), progress=count, patience=patience)
    logger.info("published %s, %d bytes", store.uri(key), info.size)
    return ShardFile(key, info.size, sum(file.lines for file in files), info.etag)


def _standing(store: ObjectStore, layout: WorkLayout, content: str, keys: Mapping[str, str]) -> dict[str, ShardFile]:
    """What an earlier attempt has published of the same content, at the same keys, and nobody has touched since."""
    try:
        note = decode_record(store.read(layout.joined), JoinedRecord)
    except RecordError as error:
        logger.warning("joining everything again: %s: %s", store.uri(layout.joined), error)
        return {}
    if note.content != content:
        return {}
    standing = {}
    for kind, file in note.published.items():
        if file.key == keys[kind] and as_it_stands(store, file) == file:
            logger.info("%s was published by an earlier attempt", store.uri(file.key))
            standing[kind] = file
    return standing


def _digest(files: Mapping[str, Sequence[ShardFile]]) -> str:
    return sha256(msgspec.json.encode(files)).hexdigest()
