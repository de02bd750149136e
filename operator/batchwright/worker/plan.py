"""The stage `plan`: read the input once, check every line, and write how it is split.

Before the first line is read, everything that the run will need is tried: the input can be read, the output written and
listed, the server answers. So no request is paid for when the results could not be kept.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import msgspec

from batchwright.api import defaults, status
from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.reports import FailureReport, PlanReport
from batchwright.batchfile import errors as file_errors
from batchwright.batchfile.errors import FileError
from batchwright.batchfile.lines import BYTE_ORDER_MARK, OversizeLine, split_lines
from batchwright.batchfile.plan_record import (
    PlannedInput,
    PlanRecord,
    fingerprint,
)
from batchwright.batchfile.request_line import ENVELOPE_BYTES
from batchwright.batchfile.sharding import choose_lines_per_shard
from batchwright.batchfile.validation import Validator, find_duplicates
from batchwright.storage.errors import NotFound
from batchwright.storage.probe import probe_conditional_put, probe_listable, probe_readable
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.failures import StageFailed
from batchwright.worker.ownership import take_output
from batchwright.worker.resubmission import find_or_begin
from batchwright.worker.served_models import PATIENCE_SECONDS, served_models
from batchwright.worker.stage import Stage

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 4 << 20
Progressed = Callable[[int, int], None]
"""Called with the bytes read and the bytes of all."""


def plan(
    stage: Stage,
    *,
    progressed: Progressed = lambda done, total: None,
    server_patience: float = PATIENCE_SECONDS,
) -> PlanReport:
    """Check the input and write the plan record. Running it again finds the record and reports the same.

    A model server that is away is asked again for `server_patience` seconds.

    Raises:
        StageFailed: the input is invalid, or what the run needs is not there.
        StorageError: the storage refuses or is away.
    """
    conditional_put = probe_conditional_put(stage.output_store, stage.layout.probes)
    probe_listable(stage.output_store, stage.layout.prefix)
    take_output(stage, exclusive=conditional_put)
    source = _find_input(stage)
    served = asyncio.run(served_models(stage, patience=server_patience))
    validator = _validate(stage, source, progressed)
    _refuse_invalid(stage, source, validator, served)
    return _write_plan(stage, source, validator, conditional_put)


def _find_input(stage: Stage) -> ObjectInfo:
    uri = stage.job.batchjob.spec.input.uri
    try:
        probe_readable(stage.input_store, stage.input_key)
        source = stage.input_store.head(stage.input_key)
    except NotFound as error:
        message = f"{error} Put the file there and create the BatchJob anew, or correct spec.input.uri."
        raise _invalid(stage, [file_errors.file_not_found(uri)], 1, Reason.INPUT_NOT_FOUND, message) from error
    limit = stage.job.max_file_bytes
    if limit is not None and source.size > limit:
        raise _invalid(stage, [file_errors.file_too_large(source.size, limit)], 1, Reason.INVALID_INPUT)
    return source


def _validate(stage: Stage, source: ObjectInfo, progressed: Progressed) -> Validator:
    spec = stage.job.batchjob.spec
    validator = Validator(
        endpoint=spec.endpoint and spec.endpoint.value,
        model=spec.model,
        max_body_bytes=stage.job.limits.max_body_bytes,
        supported=stage.job.endpoints,
    )
    for lines in _lines(stage, source, validator.skip_byte_order_mark, progressed):
        validator.take(lines)
    suspects = validator.suspects()
    if suspects:
        validator.errors.add(find_duplicates(_lines(stage, source), suspects))
    return validator


def _lines(
    stage: Stage,
    source: ObjectInfo,
    skipped: Callable[[int], None] = lambda length: None,
    progressed: Progressed = lambda done, total: None,
) -> Iterator[list[bytes | OversizeLine]]:
    """The input's lines without its byte order mark."""
    stream = stage.input_store.stream(stage.input_key, if_match=source.etag, chunk_size=CHUNK_BYTES)
    first = next(stream, b"")
    if first.startswith(BYTE_ORDER_MARK):
        first = first[len(BYTE_ORDER_MARK) :]
        skipped(len(BYTE_ORDER_MARK))

    def counted() -> Iterator[bytes]:
        done = 0
        for chunk in chain([first], stream):
            yield chunk
            done += len(chunk)
            progressed(done, source.size)

    return split_lines(counted(), stage.job.limits.max_body_bytes + ENVELOPE_BYTES)


def _refuse_invalid(stage: Stage, source: ObjectInfo, validator: Validator, served: frozenset[str] | None) -> None:
    """Raise StageFailed when anything is wrong with the input."""
    limit = stage.job.max_lines
    if validator.requests == 0:
        validator.errors.add([file_errors.empty_file()])
    if limit is not None and validator.requests > limit:
        validator.errors.add([file_errors.too_many_tasks(validator.requests, limit)])
    reason = Reason.INVALID_INPUT
    if served is not None and validator.model is not None and validator.model not in served:
        if not validator.errors.count:
            reason = Reason.MODEL_NOT_FOUND
        validator.errors.add([file_errors.model_not_found(validator.model_line, validator.model, served)])
    if validator.errors.count:
        listed = sorted(validator.errors.listed, key=lambda error: (error.line is not None, error.line or 0))
        raise _invalid(stage, listed, validator.errors.count, reason)


def _invalid(stage: Stage, listed: list[FileError], count: int, reason: Reason, message: str = "") -> StageFailed:
    """Write the errors beside the output and make the report of them."""
    lines = b"".join(msgspec.json.encode(_error_object(error)) + b"\n" for error in listed)
    stage.output_store.write(stage.layout.validation_errors, lines)
    uri = stage.output_store.uri(stage.layout.validation_errors)
    report = FailureReport(
        reason=reason,
        message=message or _message(listed, count, stage.job.batchjob.spec.input.uri),
        validation_error_count=count,
        validation_errors_uri=uri,
        validation_errors=tuple(
            status.ValidationError(code=error.code, line=error.line, param=error.param, message=error.message)
            for error in listed[: status.MAX_VALIDATION_ERRORS]
        ),
    )
    return StageFailed(ExitCode.INPUT_INVALID, report)


def _error_object(error: FileError) -> dict[str, str | int | None]:
    return {"code": error.code, "line": error.line, "param": error.param, "message": error.message}


def _message(listed: list[FileError], count: int, uri: str) -> str:
    first = listed[0]
    place = f" in line {first.line}" if first.line is not None else ""
    more = f", and {count - 1} more error{'s' if count - 1 > 1 else ''}" if count > 1 else ""
    return (
        f"{uri} is invalid: {first.code}{place}: {first.message.rstrip('.')}{more}."
        " No request was sent. Correct the file and create the BatchJob anew."
    )


def _write_plan(stage: Stage, source: ObjectInfo, validator: Validator, conditional_put: bool) -> PlanReport:
    found = find_or_begin(stage, _make_plan(stage, source, validator, conditional_put))
    record = found.plan
    logger.info(
        "%d requests in %d shards%s",
        record.lines,
        len(record.shards),
        ", planned before" if found.planned_before else "",
    )
    if found.reused is not None:
        stand = found.reused.completed + found.reused.failed
        logger.info("%d of %d requests stand from an earlier BatchJob of this name", stand, record.lines)
    return PlanReport(
        fingerprint=record.fingerprint,
        plan_uri=stage.output_store.uri(stage.layout.work(record.fingerprint).plan),
        lines=record.lines,
        shards=len(record.shards),
        endpoint=record.endpoint,
        model=record.model,
        reused=found.reused,
    )


def _make_plan(stage: Stage, source: ObjectInfo, validator: Validator, conditional_put: bool) -> PlanRecord:
    spec = stage.job.batchjob.spec
    assert validator.endpoint is not None, "a valid input names its endpoint"
    assert validator.model is not None, "a valid input names its model"
    wanted = defaults.lines_per_shard(spec)
    lines_per_shard = choose_lines_per_shard(validator.requests, defaults.parallelism(spec), wanted)
    return PlanRecord(
        fingerprint=fingerprint(
            input_uri=spec.input.uri,
            etag=source.etag,
            version_id=source.version_id,
            size=source.size,
            endpoint=validator.endpoint,
            model=validator.model,
            lines_per_shard=wanted,
            anew=stage.job.batchjob.metadata.uid if spec.resume == "Never" else None,
        ),
        input=PlannedInput(spec.input.uri, source.etag, source.size, source.version_id),
        endpoint=validator.endpoint,
        model=validator.model,
        lines=validator.requests,
        lines_per_shard=lines_per_shard,
        conditional_put=conditional_put,
        shards=tuple(validator.index.shards(lines_per_shard, source.size)),
    )
