"""The plan: written once, read by every worker. The input is never copied, a shard is a byte range of it."""

from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from batchwright.batchfile.undecodable import UNDECODABLE

FORMAT_VERSION: Final = 1
"""Of every record and work object, and part of each fingerprint."""
RANGES_VERSION: Final = 2
"""Of what an older worker can't read: records of work that was seeded from an earlier BatchJob's, whose files are
ranges of the objects that it published. See `origin_record`."""
READABLE_VERSIONS: Final = (FORMAT_VERSION, RANGES_VERSION)
"""A version that was ever written is read for ever. A change that an older worker can't read gets a new number."""

R = TypeVar("R", bound=Struct)


class RecordError(ValueError):
    """A record that can't be read: damaged, or of another version."""


class Shard(Struct, frozen=True, array_like=True):
    """A byte range [start, end) of the input with whole lines. `first_line` counts from 1, blank lines included."""

    start: int
    end: int
    first_line: int
    lines: int


class PlannedInput(Struct, frozen=True):
    """The input object as it was when it was planned; reading later requires the same ETag."""

    uri: str
    etag: str
    size: int
    version_id: str | None = None


class PlanRecord(Struct, frozen=True, tag_field="record", tag="plan"):
    """How the input is split."""

    fingerprint: str
    input: PlannedInput
    endpoint: str
    model: str
    lines: int
    lines_per_shard: int
    conditional_put: bool
    """Whether the output's store refuses a second writer; without it shards are dealt out and not claimed."""
    shards: tuple[Shard, ...]
    version: int = FORMAT_VERSION


def fingerprint(
    *,
    input_uri: str,
    etag: str,
    version_id: str | None,
    size: int,
    endpoint: str,
    model: str,
    lines_per_shard: int | None,
    anew: str | None = None,
) -> str:
    """Identity of the work, 16 hexadecimal digits.

    The server's address, time limits, retries and parallelism are no part of it: they change how the work is done, not
    what it is. `lines_per_shard` is the user's wish; a plan that chose it by itself is found again whatever the
    parallelism is by then. `anew` sets the work apart from all other work on the same input: a BatchJob that is not to
    go on from an earlier one gives its UID.
    """
    identity: list[object] = [FORMAT_VERSION, input_uri, version_id or etag, size, endpoint, model, lines_per_shard]
    if anew is not None:
        identity.append(anew)
    return sha256(msgspec.json.encode(identity)).hexdigest()[:16]


def generation(fingerprint: str, number: int) -> str:
    """Identity of the work when it is done once more, since what it had made is gone: `0123456789abcdef-2`."""
    return fingerprint if number == 1 else f"{fingerprint}-{number}"


class _Versioned(Struct):
    version: int = FORMAT_VERSION


def encode_record(record: Struct) -> bytes:
    """Any record as JSON."""
    return msgspec.json.encode(record)


def decode_record(data: bytes, kind: type[R]) -> R:
    """Read a record.

    Raises:
        RecordError: damaged, of another kind, or of a version that this program doesn't know.
    """
    try:
        # The version comes first: a record of another one may have any shape.
        version = msgspec.json.decode(data, type=_Versioned).version
        if version not in READABLE_VERSIONS:
            known = " and ".join(map(str, READABLE_VERSIONS))
            raise RecordError(f"{kind.__name__} of version {version}; this program reads the versions {known}")
        return msgspec.json.decode(data, type=kind)
    except UNDECODABLE as error:
        raise RecordError(f"not a readable {kind.__name__}: {error}") from error
