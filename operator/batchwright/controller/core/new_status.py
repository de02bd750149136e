"""The status after a step: facts, conditions, phase, timestamps; and whether it is worth a write."""

from datetime import datetime, timedelta
from typing import Any

from batchwright.api.conditions import Phase, Reason
from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import conditions, window
from batchwright.controller.core.observed import Observed
from batchwright.controller.core.step import Step
from batchwright.controller.settings import Settings

_ENTERED = {
    Phase.VALIDATING: "validating_at",
    Phase.IN_PROGRESS: "in_progress_at",
    Phase.FINALIZING: "finalizing_at",
    Phase.COMPLETED: "completed_at",
    Phase.FAILED: "failed_at",
    Phase.CANCELLING: "cancelling_at",
    Phase.CANCELLED: "cancelled_at",
    Phase.EXPIRED: "expired_at",
}
_COURSE = (Phase.VALIDATING, Phase.IN_PROGRESS, Phase.FINALIZING, Phase.COMPLETED)
_PROGRESS = frozenset(
    {
        "progress",
        "rate",
        "eta",
        "estimatedCompletionTime",
        "requestCounts",
        "shards",
        "usage",
        "finishReasons",
    }
)
"""Fields that change all the time while requests are running."""


def after(observed: Observed, step: Step, now: datetime, settings: Settings) -> BatchJobStatus:
    """The whole status after a step."""
    before, identity = observed.status, observed.identity
    values: dict[str, Any] = dict(before) | dict(step.facts)
    away = step.server is not None and not step.server.available and step.blocker is None
    values |= {
        "phase": step.phase,
        "observed_generation": identity.generation,
        "message": conditions.server_message(step) if away else step.message,
        "conditions": conditions.compose(before.conditions or [], step, identity.generation, now, settings),
        "created_at": identity.created_at,
        "expires_at": window.expires_at(observed, observed.spec) if observed.spec else before.expires_at,
    }
    for name in _timestamps(step):
        if values.get(name) is None:
            values[name] = now
    return BatchJobStatus.model_validate(values)


def for_newer_spec(observed: Observed) -> BatchJobStatus:
    """The status of a finished BatchJob whose spec was changed: the same, for the newer generation."""
    generation = observed.identity.generation
    return observed.status.model_copy(
        update={
            "observed_generation": generation,
            "conditions": conditions.observe(observed.status.conditions or [], generation),
        }
    )


def changed_fields(before: BatchJobStatus, new: BatchJobStatus) -> set[str]:
    """Names of the fields that differ as written."""
    old, fresh = as_written(before), as_written(new)
    return {name for name in old.keys() | fresh.keys() if old.get(name) != fresh.get(name)}


def write_in(observed: Observed, new: BatchJobStatus, now: datetime, settings: Settings) -> timedelta | None:
    """How long to wait with the write: zero for now, None where there is nothing to write. Progress alone is
    written only so often."""
    changed = changed_fields(observed.status, new)
    if not changed:
        return None
    if not changed <= _PROGRESS or observed.last_status_write is None:
        return timedelta(0)
    return max(timedelta(0), observed.last_status_write + settings.status_interval - now)


def as_written(status: BatchJobStatus) -> dict[str, Any]:
    """The status as JSON for the API server."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _timestamps(step: Step) -> list[str]:
    """What entering a phase dates: the phase, and those before it that passed unseen. A stop dates what it skips by
    itself, since it may skip everything."""
    phase = step.phase
    if phase in _COURSE and step.reason not in (Reason.EXPIRING, Reason.FAILING):
        return [_ENTERED[passed] for passed in _COURSE[: _COURSE.index(phase) + 1]]
    if phase is Phase.CANCELLED:
        return [_ENTERED[Phase.CANCELLING], _ENTERED[phase]]
    return [_ENTERED[phase]] if phase in _ENTERED else []
