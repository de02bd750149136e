"""Ids of files and batches: opaque to clients, sorted by their creation, the newest first.

Object stores list keys in ascending order, and clients want the newest first. So an id begins with the time that is
left until a far end of time: a list's page is then the first page of a listing.
"""

import re
import secrets
from datetime import UTC, datetime
from typing import Final, Literal

FILE_PREFIX: Final = "file-"
BATCH_PREFIX: Final = "batch_"
BATCHJOB_PREFIX: Final = "batch-"
"""A BatchJob's name has no underscores."""
_TIME_DIGITS: Final = 12
_RANDOM_BYTES: Final = 10
_END_OF_TIME: Final = 16**_TIME_DIGITS - 1
"""In milliseconds since 1970: the year 10889."""
_FILE_ID: Final = re.compile(r"file-[0-9a-f]{32}")
_BATCH_ID: Final = re.compile(r"batch_[0-9a-f]{32}")
_OUTPUT_MARKS: Final = {"output": "0", "errors": "1"}
Published = Literal["output", "errors"]


def new_file_id(now: datetime, random: bytes | None = None) -> str:
    """An id of a file that is made now."""
    return FILE_PREFIX + _unique(now, random)


def new_batch_id(now: datetime, random: bytes | None = None) -> str:
    """An id of a batch that is made now."""
    return BATCH_PREFIX + _unique(now, random)


def is_file_id(text: str) -> bool:
    """Whether it has the form of our ids of files; anything else is no file, and never part of a key."""
    return _FILE_ID.fullmatch(text) is not None


def is_batch_id(text: str) -> bool:
    """Whether it has the form of our ids of batches; anything else is no batch, and never part of a key."""
    return _BATCH_ID.fullmatch(text) is not None


def batchjob_name(batch_id: str) -> str:
    """Name of the BatchJob of a batch."""
    if not is_batch_id(batch_id):
        raise ValueError(f"not a batch id: {batch_id!r}")
    return BATCHJOB_PREFIX + batch_id.removeprefix(BATCH_PREFIX)


def output_file_id(batch_id: str, kind: Published, ended_at: datetime) -> str:
    """The id of what a batch published: whoever archives the batch comes to the same one. It sorts by the end."""
    rest = batch_id[-2 * _RANDOM_BYTES :]
    return f"{FILE_PREFIX}{_time(ended_at)}{_OUTPUT_MARKS[kind]}{rest[1:]}"


def created_at(any_id: str) -> datetime:
    """When an id of ours was made, to the millisecond."""
    digits = any_id.removeprefix(FILE_PREFIX).removeprefix(BATCH_PREFIX).removeprefix(BATCHJOB_PREFIX)[:_TIME_DIGITS]
    return datetime.fromtimestamp((_END_OF_TIME - int(digits, 16)) / 1000, UTC)


def _unique(now: datetime, random: bytes | None) -> str:
    return _time(now) + (random or secrets.token_bytes(_RANDOM_BYTES)).hex()


def _time(moment: datetime) -> str:
    return f"{_END_OF_TIME - int(moment.timestamp() * 1000):012x}"
