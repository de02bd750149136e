"""Which generation of its work a BatchJob does: an earlier one that can be gone on with, or the next.

A BatchJob that is applied again finds what was done before of the same work, by its fingerprint. Generations follow
each other under `fingerprint`, `fingerprint-2` and so on, and the latest that has a plan tells what is to be done:

- planned and not published: it is gone on with;
- published, and all requests answered for good: its results count;
- published, and requests failed that may succeed now: the next generation begins with what stands of this one;
- its results were deleted or overwritten: the next generation begins with nothing. (What is left of such work can't be
  finished any more, and may not be deletable.)
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec

from batchwright.api import status
from batchwright.api.undone import Undone
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.origin_record import OriginRecord, all_stand
from batchwright.batchfile.plan_record import RANGES_VERSION, PlanRecord, decode_record, encode_record, generation
from batchwright.batchfile.shard_record import ShardRecord, Totals
from batchwright.storage.errors import NotFound, ObjectChanged, PreconditionFailed, StorageUnavailable
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.published import (
    can_be_finished,
    committed_records,
    names_cross,
    read_origin,
    standing_summary,
)
from batchwright.worker.run.progress import usage_status
from batchwright.worker.seeding import Seed, prepare_seed, sow
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

_UNDONE: Final = frozenset(code.value for code in Undone)
TRIES: Final = 3
"""Each one that fails has met another writer, who replaced what was to be gone on from."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Work that can be run: its plan stands in the store."""

    plan: PlanRecord
    reused: status.Reused | None = None
    """What stands from an earlier BatchJob, where its results were published."""
    planned_before: bool = False


def find_or_begin(stage: Stage, planned: PlanRecord) -> Generation:
    """The generation to do, its plan written. `planned` is the plan of work that nothing was done of.

    It may be killed at any moment and called again, by two at once too: a generation is whole once it has its plan, and
    the first plan counts.

    Raises:
        StorageError, RecordError: the storage or a record can't be used.
    """
    for left in reversed(range(TRIES)):
        try:
            return _find_or_begin(stage, planned)
        except (NotFound, ObjectChanged) as error:
            if not left:
                raise
            logger.info("looking again at what was done before: %s", error)
    raise AssertionError("unreachable: the last try returns or raises")


def _find_or_begin(stage: Stage, planned: PlanRecord) -> Generation:
    store = stage.output_store
    latest = _latest(stage, planned.fingerprint)
    if latest == 0:
        return _write_plan(store, stage.layout.work(planned.fingerprint), planned, None)
    layout = stage.layout.work(generation(planned.fingerprint, latest))
    seed, found = _look_at(stage, layout, decode_record(store.read(layout.plan), PlanRecord))
    if found is not None:
        return found
    abandoned: list[WorkLayout] = []
    for number in count(latest + 1):
        identity = generation(planned.fingerprint, number)
        layout = stage.layout.work(identity)
        begun = _begin(store, layout, msgspec.structs.replace(planned, fingerprint=identity), seed)
        if begun is not None:
            _clean(store, abandoned)
            return begun
        abandoned.append(layout)
    raise AssertionError("unreachable: there is always another generation")


def _latest(stage: Stage, base: str) -> int:
    """The number of the latest generation that has a plan: those before it are done with. 0 where there is none."""
    store, latest = stage.output_store, 0
    for number in count(1):
        layout = stage.layout.work(generation(base, number))
        if find(store, layout.plan) is not None:
            latest = number
        elif number == 1 or find(store, layout.origin) is None:
            break
    return latest


def _clean(store: ObjectStore, abandoned: Iterable[WorkLayout]) -> None:
    """Delete what plans that were killed have left of generations that are passed over: copies of whole results.

    Only the record of the origin stays, since it keeps the number taken.
    """
    for layout in abandoned:
        store.abort_uploads(layout.prefix, lambda _: True)
        prefixes = (layout.earlier, layout.records, layout.segments)
        for failure in store.delete(info.key for prefix in prefixes for info in store.list(prefix)):
            logger.warning("%s stays: %s", failure.key, failure.reason)


def _look_at(stage: Stage, layout: WorkLayout, plan: PlanRecord) -> tuple[Seed | None, Generation | None]:
    """The generation, where it can be gone on with or is done; else what the next one may begin with."""
    store = stage.output_store
    summary = standing_summary(store, layout)
    if summary is None:
        records = committed_records(store, layout)
        if can_be_finished(store, layout, records):
            _reopen(store, layout, records)
            return None, Generation(plan, _reused(read_origin(store, layout)), planned_before=True)
        # A merge that was still at work may have published since, and deleted what the records name.
        summary = standing_summary(store, layout)
    if summary is None:
        logger.info("the results of %s are gone: the work is done again", store.uri(layout.prefix))
        return None, None
    if all_stand(summary.totals) and not names_cross(stage, summary):
        return None, Generation(plan, _as_reused(summary.totals, len(plan.shards)), planned_before=True)
    return prepare_seed(store, layout, plan, summary), None


def _reopen(store: ObjectStore, layout: WorkLayout, records: Iterable[ShardRecord]) -> None:
    """Take back what a stopped BatchJob gave up, where it was gone before that could be published. What was finished of
    these shards stands in their segments.
    """
    stopped = [record.shard for record in records if not _UNDONE.isdisjoint(record.totals.error_codes)]
    if not stopped:
        return
    logger.info("%d shards that were given up are gone on with", len(stopped))
    for failure in store.delete(layout.record(shard) for shard in stopped):
        if failure.retryable:
            raise StorageUnavailable("DeleteObjects", store.uri(failure.key), failure.reason)
        logger.warning("requests that were given up stay so: %s", failure.reason)


def _begin(store: ObjectStore, layout: WorkLayout, plan: PlanRecord, seed: Seed | None) -> Generation | None:
    """Begin a further generation; None where what stands there has another origin."""
    origin = seed.origin if seed is not None else OriginRecord()
    if not _take(store, layout, origin, exclusive=plan.conditional_put):
        return None
    if seed is not None:
        sow(store, layout, seed, exclusive=plan.conditional_put)
        # Its shards are whole only within the same boundaries.
        plan = msgspec.structs.replace(plan, lines_per_shard=seed.plan.lines_per_shard, shards=seed.plan.shards)
        plan = msgspec.structs.replace(plan, version=RANGES_VERSION)
    return _write_plan(store, layout, plan, _reused(origin))


def _take(store: ObjectStore, layout: WorkLayout, origin: OriginRecord, *, exclusive: bool) -> bool:
    """Write what a generation begins with; whether that is what stands there now."""
    standing = read_origin(store, layout)
    if standing is None:
        try:
            store.write(layout.origin, encode_record(origin), if_none_match=exclusive)
        except PreconditionFailed:
            standing = read_origin(store, layout)
        else:
            return True
    return standing == origin


def _write_plan(store: ObjectStore, layout: WorkLayout, plan: PlanRecord, reused: status.Reused | None) -> Generation:
    """Begin the generation. Two plans may split an input differently, so no second one may replace the first."""
    try:
        store.write(layout.plan, encode_record(plan), if_none_match=plan.conditional_put)
    except PreconditionFailed:
        # Another plan's at this moment, or one's own whose answer got lost: its shards count.
        return Generation(decode_record(store.read(layout.plan), PlanRecord), reused, planned_before=True)
    return Generation(plan, reused)


def _reused(origin: OriginRecord | None) -> status.Reused | None:
    return _as_reused(origin.reused, origin.shards) if origin is not None and origin.source is not None else None


def _as_reused(totals: Totals, shards: int) -> status.Reused:
    return status.Reused(
        completed=totals.completed,
        failed=totals.failed,
        shards=shards,
        usage=usage_status(totals.usage),
        finish_reasons=totals.finish_reasons,
    )
