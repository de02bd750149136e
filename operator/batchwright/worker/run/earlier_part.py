"""Reading what an earlier BatchJob finished of a shard."""

import sys
from collections.abc import Iterator

from batchwright.batchfile.lines import OversizeLine, split_lines
from batchwright.batchfile.origin_record import EarlierPart
from batchwright.batchfile.plan_record import RecordError, decode_record
from batchwright.storage.errors import NotFound
from batchwright.storage.protocol import ObjectStore


def earlier_lines(store: ObjectStore, key: str) -> Iterator[bytes]:
    """The lines, without their ends, that the record at a key names: successes, then failures.

    Raises:
        RecordError: the record can't be read, or what it names is gone.
        StorageError: the storage refuses or is away.
    """
    part = decode_record(store.read(key), EarlierPart)
    for file in (part.results, part.errors):
        if file is None:
            continue
        try:
            for lines in split_lines(store.stream(file.key, start=file.start, end=file.end), sys.maxsize):
                for line in lines:
                    assert not isinstance(line, OversizeLine), "there is no limit"
                    yield line
        except NotFound as error:
            raise RecordError(f"what stands from an earlier BatchJob is gone: {error}") from error
