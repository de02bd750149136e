"""Events: one for each transition, derived from the status before and after. Nothing changed, nothing is said."""

from collections.abc import Iterator

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import conditions
from batchwright.controller.core.plan_of_actions import Notice

_STARTED = {
    Phase.VALIDATING: "ValidationStarted",
    Phase.IN_PROGRESS: "RunStarted",
    Phase.FINALIZING: "MergeStarted",
    Phase.CANCELLING: "Cancelling",
}
_STOPS = (Reason.EXPIRING, Reason.FAILING)
"""Stops that have no phase of their own."""


def between(before: BatchJobStatus, after: BatchJobStatus) -> tuple[Notice, ...]:
    """The Events of a change of status."""
    return (*_phase(before, after), *_stop(before, after), *_repair(before, after), *_conditions(before, after))


def _phase(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[Notice]:
    if before.phase == after.phase or after.phase is None:
        return
    complete = conditions.find(after, ConditionType.COMPLETE)
    failed = conditions.find(after, ConditionType.FAILED)
    if complete is not None and complete.status == "True":
        yield Notice("Normal", complete.reason, complete.message)
    elif failed is not None and failed.status == "True":
        yield Notice("Warning", failed.reason, failed.message)
    elif after.phase in _STARTED and _working_on(after) not in _STOPS:
        yield Notice("Normal", _STARTED[after.phase], _detail(after))


def _stop(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[Notice]:
    reason = _working_on(after)
    if reason in _STOPS and reason != _working_on(before) and not conditions.is_finished(after):
        yield Notice("Warning", reason, after.message or "")


def _working_on(status: BatchJobStatus) -> str:
    reconciling = conditions.find(status, ConditionType.RECONCILING)
    return reconciling.reason if reconciling is not None else ""


def _detail(status: BatchJobStatus) -> str:
    message = status.message or ""
    if status.phase is Phase.IN_PROGRESS and status.request_counts and status.shards:
        return f"{message} {status.request_counts.total} requests in {status.shards.total} shards."
    return message


def _repair(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[Notice]:
    if before.run is not None and after.run is not None and after.run > before.run:
        yield Notice("Warning", "Repairing", f"Shards are missing: run {after.run} makes up for them.")


def _conditions(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[Notice]:
    for condition in after.conditions or []:
        old = conditions.find(before, ConditionType(condition.type))
        was = old is not None and old.status == "True"
        match condition.type, was, condition.status:
            case (ConditionType.STALLED, False, "True"):
                yield Notice("Warning", condition.reason, condition.message)
            case (ConditionType.STALLED, True, "False") if not conditions.is_finished(after):
                yield Notice("Normal", "NoLongerStalled", "What held the work up is gone.")
            case (ConditionType.SERVER_AVAILABLE, _, "False") if old is None or was:
                yield Notice("Warning", condition.reason, condition.message)
            case (ConditionType.SERVER_AVAILABLE, False, "True") if old is not None:
                yield Notice("Normal", condition.reason, condition.message)
            case (ConditionType.SUSPENDED, False, "True"):
                yield Notice("Normal", condition.reason, condition.message)
            case (ConditionType.SUSPENDED, True, "False") if not conditions.is_finished(after):
                yield Notice("Normal", "Resumed", "No longer suspended.")
            case _:
                pass
