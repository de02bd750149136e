"""The stage `merge`: join the shard files in input order, check the counts, publish.

It can be run again at any time with the same result: before the shard files are deleted it joins them anew, afterwards
the summary and the published objects speak for it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from batchwright.api import status
from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, ShardsMissingReport
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlanRecord, encode_record
from batchwright.batchfile.shard_record import (
    ERRORS,
    KINDS,
    RESULTS,
    RETRY,
    ShardFile,
    ShardRecord,
    SummaryRecord,
    Totals,
)
from batchwright.storage.errors import NotFound, ObjectChanged
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectRange, ObjectStore
from batchwright.worker.existing import find
from batchwright.worker.failures import StageFailed, final
from batchwright.worker.published import published_before, published_keys, read_records
from batchwright.worker.run.progress import usage_status
from batchwright.worker.run.stage_run import read_plan
from batchwright.worker.run.tally import add_totals
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

DELETE_PAUSES: Final = (1.0, 5.0, 15.0)
"""Seconds between the tries to delete work objects: an outage must not leave them for ever, nor hold up the end."""

Progressed = Callable[[int, int], None]
"""Called with the bytes joined and the bytes of all."""


def merge(
    stage: Stage,
    *,
    fingerprint: str,
    progressed: Progressed = lambda done, total: None,
    patience: Patience | None = None,
) -> MergeReport | ShardsMissingReport:
    """Publish the results, or say which shards have no record. With `patience` a join outlasts an outage of the store.

    Raises:
        StageFailed: the records contradict the plan, or what they name is gone.
        StorageError, RecordError: the storage or a record can't be used.
    """
    store, layout = stage.output_store, stage.layout.work(fingerprint)
    plan = read_plan(store, layout)
    summary = published_before(stage, layout)
    if summary is not None:
        summary = _renamed(stage, layout, summary)
    else:
        committed = {layout.shard_of_record(info.key) for info in store.list(layout.records)}
        missing = sorted(set(range(len(plan.shards))) - committed)
        if missing:
            return ShardsMissingReport(count=len(missing), shards=ranges(missing))
        summary = _publish_once(stage, layout, plan, progressed, patience)
    warnings = tuple(_remove_stale(stage, summary))
    _abort_uploads(stage, layout)
    if not stage.job.keep_work_objects:
        warnings += _clean(store, layout)
    return _report(store, summary, warnings)


def _read_records(store: ObjectStore, layout: WorkLayout, plan: PlanRecord) -> list[ShardRecord]:
    records = read_records(store, [layout.record(number) for number in range(len(plan.shards))])
    for record, shard in zip(records, plan.shards, strict=True):
        counted = record.totals.completed + record.totals.failed
        kept = sum(file.lines for file in (record.results, record.errors) if file is not None)
        if not record.lines == shard.lines == counted == kept:
            raise _contradiction(
                f"Shard {record.shard} has {shard.lines} lines in the plan, {kept} in its files and {counted} in its"
                " counts. Nothing was published; please report this."
            )
    return records


def _renamed(stage: Stage, layout: WorkLayout, summary: SummaryRecord) -> SummaryRecord:
    """What was published before, copied to the names that the spec has by now. The earlier objects stay."""
    wanted = published_keys(stage)
    if all(file.key == wanted[kind] for kind, file in summary.published.items()):
        return summary
    try:
        published = {
            kind: file if file.key == wanted[kind] else _join(stage.output_store, wanted[kind], [file])
            for kind, file in summary.published.items()
        }
    except (NotFound, ObjectChanged) as error:
        raise _contradiction(
            f"What was published before is missing or changed: {error} Create the BatchJob anew: its requests will be"
            " sent again."
        ) from error
    summary = msgspec.structs.replace(summary, published=published)
    stage.output_store.write(layout.summary, encode_record(summary))
    return summary


def _publish_once(
    stage: Stage, layout: WorkLayout, plan: PlanRecord, progressed: Progressed, patience: Patience | None
) -> SummaryRecord:
    """Publish, and write the summary; or find that another merge, on a node that was cut off, did it meanwhile."""
    store = stage.output_store
    try:
        summary = _publish(stage, plan, _read_records(store, layout, plan), progressed, patience)
    except StageFailed:
        published = published_before(stage, layout)
        if published is None:
            raise
        return published
    store.write(layout.summary, encode_record(summary))
    return summary


def _publish(
    stage: Stage,
    plan: PlanRecord,
    records: Sequence[ShardRecord],
    progressed: Progressed,
    patience: Patience | None,
) -> SummaryRecord:
    files = {kind: [file for record in records if (file := record.file(kind)) is not None] for kind in KINDS}
    total = sum(file.bytes for some in files.values() for file in some)
    joined = 0

    def count(size: int) -> None:
        nonlocal joined
        joined += size
        progressed(joined, total)

    progressed(0, total)
    try:
        published = {
            kind: _join(stage.output_store, key, files[kind], count, patience)
            for kind, key in published_keys(stage).items()
            if files[kind]
        }
    except (NotFound, ObjectChanged) as error:
        raise _contradiction(
            f"A file of a committed shard is missing or changed: {error} Nothing can be published from it any more."
            " Create the BatchJob anew: its requests will be sent again."
        ) from error
    lines = sum(published[kind].lines for kind in (RESULTS, ERRORS) if kind in published)
    if lines != plan.lines:
        raise _contradiction(f"{lines} lines were joined of {plan.lines} in the input; please report this.")
    totals = Totals()
    for record in records:
        totals = add_totals(totals, record.totals)
    return SummaryRecord(plan.fingerprint, plan.lines, totals, published, datetime.now(UTC))


def _join(
    store: ObjectStore,
    key: str,
    files: Sequence[ShardFile],
    count: Callable[[int], None] | None = None,
    patience: Patience | None = None,
) -> ShardFile:
    """One object from many; the store verifies its size."""
    pieces = (ObjectRange(file.key, 0, file.bytes, file.etag or None) for file in files)
    info = store.join(key, pieces, progress=count, patience=patience)
    logger.info("published %s, %d bytes", store.uri(key), info.size)
    return ShardFile(key, info.size, sum(file.lines for file in files), info.etag)


def _contradiction(message: str) -> StageFailed:
    return final(ExitCode.PLAN_UNREADABLE, Reason.MERGE_FAILED, message)


def _remove_stale(stage: Stage, summary: SummaryRecord) -> Iterator[str]:
    """Delete an object of an earlier run where this one has none of its kind; gives warnings."""
    store = stage.output_store
    for kind, key in published_keys(stage).items():
        if kind not in summary.published and find(store, key) is not None:
            for failure in store.delete([key]):
                yield f"{store.uri(key)} is of an earlier run and could not be deleted: {failure.reason}"


def _abort_uploads(stage: Stage, layout: WorkLayout) -> None:
    """Remove what workers and merges that were killed had begun to upload; invisible, and paid for, it would stay."""
    published = set(published_keys(stage).values())
    stage.output_store.abort_uploads(stage.layout.prefix, lambda key: key in published or key.startswith(layout.prefix))


def _clean(store: ObjectStore, layout: WorkLayout) -> tuple[str, ...]:
    """Delete segments and shard files; plan, records and summary stay, for a resubmission."""
    for pause in (*DELETE_PAUSES, None):
        prefixes = (layout.segments, layout.shard_files)
        failures = store.delete(info.key for prefix in prefixes for info in store.list(prefix))
        if pause is None or not any(failure.retryable for failure in failures):
            break
        time.sleep(pause)
    if not failures:
        return ()
    return (f"{len(failures)} work objects under {store.uri(layout.prefix)} stay: {failures[0].reason}",)


def _report(store: ObjectStore, summary: SummaryRecord, warnings: tuple[str, ...]) -> MergeReport:
    def published(kind: str) -> status.PublishedObject | None:
        file = summary.published.get(kind)
        if file is None:
            return None
        return status.PublishedObject(uri=store.uri(file.key), bytes=file.bytes, lines=file.lines)

    totals = summary.totals
    return MergeReport(
        request_counts=status.RequestCounts(total=summary.lines, completed=totals.completed, failed=totals.failed),
        usage=usage_status(totals.usage),
        finish_reasons=totals.finish_reasons,
        error_codes=totals.error_codes,
        output=published(RESULTS),
        errors=published(ERRORS),
        retry=published(RETRY),
        warnings=warnings,
    )


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, compressed: `0-5,7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
