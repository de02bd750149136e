"""Work that goes on from what an earlier BatchJob of the same name published.

Its successes and final answers stand, the rest is done again, as a further generation of the same work. Before this has
a plan, it is seeded: the published objects are copied to it, each shard all of whose lines stand gets its record, and
each other one a record of its part. The plan record is the commit of all this. The record of the origin comes first, so
that two plans, or what is left of one that was killed, never mix the seeds of two origins.
"""

from typing import Final

from msgspec import Struct, field

from batchwright.batchfile.plan_record import RANGES_VERSION
from batchwright.batchfile.shard_record import ShardFile, Totals

_CLIENT_ERRORS: Final = range(400, 500)
_MAY_PASS: Final = frozenset({401, 403, 404, 408, 425, 429})
"""Client errors that the same request may not meet again: the key, the model or the pace was wrong, not the request."""


class OriginRecord(Struct, frozen=True, tag_field="record", tag="origin"):
    """What a further generation of the work was begun from, written before anything else of it."""

    source: str | None = None
    """The earlier generation's fingerprint. None: nothing of what was done before is left."""
    published: dict[str, ShardFile] = field(default_factory=dict)
    """By kind: what it had published."""
    reused: Totals = Totals()
    """Requests that stand from there."""
    shards: int = 0
    """Shards all of whose requests stand."""
    version: int = RANGES_VERSION


class EarlierPart(Struct, frozen=True, tag_field="record", tag="earlier"):
    """Where the lines of a shard stand that an earlier BatchJob ended with, final or not."""

    results: ShardFile | None = None
    errors: ShardFile | None = None
    version: int = RANGES_VERSION


def is_final(code: str) -> bool:
    """Whether a failed request would fail again in the same way: `code` is its HTTP status, or the code of a failure
    without an answer.
    """
    if not (code.isascii() and code.isdecimal()):
        return False
    return int(code) in _CLIENT_ERRORS and int(code) not in _MAY_PASS


def standing(totals: Totals) -> Totals:
    """The part of counts that stands: successes and final answers. Codes that were folded together don't."""
    codes = {code: count for code, count in totals.error_codes.items() if is_final(code)}
    return Totals(totals.completed, sum(codes.values()), totals.usage, dict(totals.finish_reasons), codes)


def all_stand(totals: Totals) -> bool:
    """Whether no request of these is to be sent again."""
    return standing(totals).failed == totals.failed
