"""When a finished BatchJob is deleted: its own TTL, from the moment it ended. Results stay."""

from datetime import datetime, timedelta

from batchwright.api.conditions import ConditionType
from batchwright.api.status import BatchJobStatus
from batchwright.controller.core import conditions


def delete_at(status: BatchJobStatus, ttl_seconds: int | None) -> datetime | None:
    """The moment of deletion; None while it works or where it stays for ever."""
    if ttl_seconds is None:
        return None
    for kind in (ConditionType.COMPLETE, ConditionType.FAILED):
        condition = conditions.find(status, kind)
        if condition is not None and condition.status == "True":
            try:
                return condition.last_transition_time + timedelta(seconds=ttl_seconds)
            except OverflowError:
                return None
    return None
