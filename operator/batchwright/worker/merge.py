"""The stage `merge`: join the shard files in input order, check the counts, publish.

It can be run again at any time with the same result: before the shard files are deleted it joins them anew, afterwards
the summary and the published objects speak for it.

A closing merge is that of a batch which was stopped: it first finishes the shards that have no record.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from batchwright.api import status
from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import MergeReport, ShardsMissingReport
from batchwright.api.undone import Undone
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.number_ranges import compressed
from batchwright.batchfile.plan_record import RANGES_VERSION, PlanRecord, encode_record
from batchwright.batchfile.shard_record import (
    ERRORS,
    RESULTS,
    RETRY,
    ShardFile,
    ShardRecord,
    SummaryRecord,
    Totals,
)
from batchwright.storage.errors import NotFound, ObjectChanged
from batchwright.storage.patience import Patience
from batchwright.storage.protocol import ObjectStore
from batchwright.worker.closing import NO_INDEX, Closed, close_shards
from batchwright.worker.existing import find
from batchwright.worker.failures import StageFailed, final
from batchwright.worker.final_progress import publish_progress
from batchwright.worker.joining import Progressed, join, join_all
from batchwright.worker.ownership import require_output
from batchwright.worker.published import (
    progress_key,
    published_before,
    published_keys,
    read_records,
    replaced_since,
)
from batchwright.worker.run.progress import usage_status
from batchwright.worker.run.stage_run import read_plan
from batchwright.worker.run.tally import add_totals
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

DELETE_PAUSES: Final = (1.0, 5.0, 15.0)
"""Seconds between the tries to delete work objects: an outage must not leave them for ever, nor hold up the end."""
OWNER_SECONDS: Final = 5.0
"""How often a closing merge looks whether a BatchJob that was applied again goes on with the work by now."""


def merge(
    stage: Stage,
    *,
    fingerprint: str,
    run: int = 1,
    undone: Undone | None = None,
    began: datetime | None = None,
    progressed: Progressed = lambda done, total: None,
    closed: Closed = lambda done, total: None,
    patience: Patience | None = None,
) -> MergeReport | ShardsMissingReport:
    """Publish the results, or say which shards have no record. With `patience` it outlasts an outage of the store.

    `undone` makes it a closing merge, which reports no missing shards: their unfinished requests get error lines with
    this code. `run` is the last run's number. `began` is when the run began, for the final progress object.

    Raises:
        StageFailed: the records contradict the plan, or what they name is gone; or a closing merge is of a BatchJob
            that was deleted and applied again.
        StorageError, RecordError: the storage or a record can't be used.
        OSError: the spool can't be written.
    """
    store, layout, patience = stage.output_store, stage.layout.work(fingerprint), patience or Patience()
    plan = read_plan(store, layout)
    summary = published_before(stage, layout)
    if summary is not None:
        summary = _renamed(stage, layout, summary)
    else:
        missing, begun = _look_at_records(store, layout, plan)
        if missing and undone is None:
            return ShardsMissingReport(count=len(missing), shards=compressed(missing))

        def publish() -> SummaryRecord:
            if undone is None:
                return _publish(stage, layout, plan, begun=begun, progressed=progressed, patience=patience)
            require_output(stage)
            if missing:
                told = _while_owned(stage, closed, patience)
                close_shards(stage, layout, plan, missing, undone, run=run, patience=patience, closed=told)
            published = _publish(stage, layout, plan, begun=begun, progressed=progressed, patience=patience)
            require_output(stage)  # who goes on with these shards has taken back what was given up
            return published

        summary = _publish_once(stage, layout, publish)
    progress = publish_progress(stage, layout, summary, began)
    warnings = (*_unlisted(summary, plan), *_remove_stale(stage, summary), *progress.warnings)
    _abort_uploads(stage, layout)
    if not stage.job.keep_work_objects:
        warnings += _clean(store, layout, plan)
    return _report(store, summary, warnings, progress.seconds)


def _while_owned(stage: Stage, closed: Closed, patience: Patience) -> Closed:
    """The same, which now and then makes sure that the output is still this BatchJob's."""
    looked_at = time.monotonic()

    def closed_by_owner(done: int, total: int) -> None:
        nonlocal looked_at
        if time.monotonic() - looked_at >= OWNER_SECONDS:
            patience.call(lambda: require_output(stage))
            looked_at = time.monotonic()
        closed(done, total)

    return closed_by_owner


def _look_at_records(store: ObjectStore, layout: WorkLayout, plan: PlanRecord) -> tuple[list[int], bool]:
    """Shards without a record, in order; and whether an earlier merge has noted what it joined."""
    keys = {info.key for info in store.list(layout.records)}
    committed = {layout.shard_of_record(key) for key in keys}
    return sorted(set(range(len(plan.shards))) - committed), layout.joined in keys


def _read_records(store: ObjectStore, layout: WorkLayout, plan: PlanRecord) -> list[ShardRecord]:
    records = read_records(store, [layout.record(number) for number in range(len(plan.shards))])
    for record, shard in zip(records, plan.shards, strict=True):
        counted = record.totals.completed + record.totals.failed
        kept = _kept(record)
        # Only a closing merge without the input has no line for what it counts.
        listed = kept == record.lines or (kept < record.lines and record.index == NO_INDEX)
        if not (listed and record.lines == shard.lines == counted):
            raise _contradiction(
                f"Shard {record.shard} has {shard.lines} lines in the plan, {kept} in its files and {counted} in its"
                " counts. Nothing was published; please report this."
            )
    return records


def _kept(record: ShardRecord) -> int:
    return sum(file.lines for file in (record.results, record.errors) if file is not None)


def _renamed(stage: Stage, layout: WorkLayout, summary: SummaryRecord) -> SummaryRecord:
    """What was published before, copied to the names that the spec has by now. The earlier objects stay."""
    wanted = published_keys(stage)
    if all(file.key == wanted[kind] for kind, file in summary.published.items()):
        return summary
    try:
        published = {
            kind: file if file.key == wanted[kind] else join(stage.output_store, wanted[kind], [file])
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


def _publish_once(stage: Stage, layout: WorkLayout, publish: Callable[[], SummaryRecord]) -> SummaryRecord:
    """Publish, and write the summary; or find that another merge, on a node that was cut off, did it meanwhile."""
    began = datetime.now(UTC)
    try:
        summary = publish()
    except (StageFailed, NotFound):  # it has deleted the work objects
        published = published_before(stage, layout) or replaced_since(stage, layout, began)
        if published is None:
            raise
        return published
    stage.output_store.write(layout.summary, encode_record(summary))
    return summary


def _publish(
    stage: Stage, layout: WorkLayout, plan: PlanRecord, *, begun: bool, progressed: Progressed, patience: Patience
) -> SummaryRecord:
    records = _read_records(stage.output_store, layout, plan)
    try:
        published = join_all(
            *(stage.output_store, layout, records, published_keys(stage)),
            begun=begun,
            progressed=progressed,
            patience=patience,
        )
    except (NotFound, ObjectChanged) as error:
        raise _contradiction(
            f"A file of a committed shard is missing or changed: {error} Nothing can be published from it any more."
            " Create the BatchJob anew: its requests will be sent again."
        ) from error
    lines, kept = _lines(published), sum(map(_kept, records))
    if lines != kept:
        raise _contradiction(f"{lines} lines were joined of {kept} in the shards' files; please report this.")
    totals = Totals()
    for record in records:
        totals = add_totals(totals, record.totals)
    worked = [record for record in records if record.run and record.index != NO_INDEX]
    return SummaryRecord(
        plan.fingerprint,
        plan.lines,
        totals,
        published,
        finished_at=datetime.now(UTC),
        worked_from=min((record.started_at for record in worked), default=None),
        worked_until=max((record.finished_at for record in worked), default=None),
    )


def _lines(published: Mapping[str, ShardFile]) -> int:
    """Requests that have a line among the results or the errors."""
    return sum(published[kind].lines for kind in (RESULTS, ERRORS) if kind in published)


def _unlisted(summary: SummaryRecord, plan: PlanRecord) -> Iterator[str]:
    """Warnings where a closing merge had no input to make lines from."""
    since = f"since the input {plan.input.uri} was gone or changed"
    if count := summary.lines - _lines(summary.published):
        yield (
            f"{count} unfinished requests are counted as failed and have no line in the errors and retry objects,"
            f" {since}."
        )
    lines = {kind: file.lines for kind, file in summary.published.items()}
    if count := lines.get(ERRORS, 0) - lines.get(RETRY, 0):
        yield f"{count} failed requests of the errors object have no line in the retry object, {since}."


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
    published = {*published_keys(stage).values(), progress_key(stage)}
    stage.output_store.abort_uploads(stage.layout.prefix, lambda key: key in published or key.startswith(layout.prefix))


def _clean(store: ObjectStore, layout: WorkLayout, plan: PlanRecord) -> tuple[str, ...]:
    """Delete segments, shard files and copies of earlier results; all else stays, for a resubmission."""
    prefixes = [layout.segments, layout.shard_files]
    if plan.version == RANGES_VERSION:
        prefixes.append(layout.earlier)
    for pause in (*DELETE_PAUSES, None):
        failures = store.delete(info.key for prefix in prefixes for info in store.list(prefix))
        if pause is None or not any(failure.retryable for failure in failures):
            break
        time.sleep(pause)
    if not failures:
        return ()
    return (f"{len(failures)} work objects under {store.uri(layout.prefix)} stay: {failures[0].reason}",)


def _report(
    store: ObjectStore, summary: SummaryRecord, warnings: tuple[str, ...], seconds: float | None
) -> MergeReport:
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
        response_time_seconds=seconds,
        warnings=warnings,
    )
