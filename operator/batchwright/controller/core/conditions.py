"""The conditions of a BatchJob, composed from a step.

`Complete` or `Failed` ends every BatchJob, so that `kubectl wait` ends. `Reconciling` is true while it works: kstatus
takes a resource without it as done. `Stalled` means that a person must act, and makes the waits of GitOps tools give
up, so it is damped by a deadline, and an outage of the server that heals by itself is shown as `ServerAvailable` false
instead. The transition time changes only with the status of a condition.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from batchwright.api.conditions import TERMINAL_PHASES, ConditionType, Phase, Reason
from batchwright.api.status import BatchJobStatus, Condition
from batchwright.controller.core.step import Step
from batchwright.controller.settings import Settings

_State = tuple[Literal["True", "False"], Reason, str]
_UNSENT = " No request has been sent, and the work goes on by itself."
_HELD = " No request fails for it, and the work goes on by itself."


def find(status: BatchJobStatus, kind: ConditionType) -> Condition | None:
    """One condition of a status."""
    return next((condition for condition in status.conditions or [] if condition.type == kind), None)


def is_true(status: BatchJobStatus, kind: ConditionType) -> bool:
    """Whether a condition is there and true."""
    condition = find(status, kind)
    return condition is not None and condition.status == "True"


def is_finished(status: BatchJobStatus) -> bool:
    """Whether the BatchJob has ended for good."""
    return is_true(status, ConditionType.COMPLETE) or is_true(status, ConditionType.FAILED)


def is_stalled(step: Step, now: datetime, settings: Settings) -> bool:
    """Whether a person must act: something has kept the work from starting for too long."""
    return step.blocker is not None and now >= step.blocker.overdue_at(settings)


def server_message(step: Step) -> str:
    """What a person reads about a server that is away."""
    server = step.server
    since = f" since {server.since:%Y-%m-%dT%H:%M:%SZ}" if server and server.since else ""
    detail = f": {server.message.rstrip('.')}" if server and server.message else ""
    return f"The model server is away{since}{detail}.{_HELD if step.phase is Phase.IN_PROGRESS else _UNSENT}"


def compose(
    previous: Sequence[Condition], step: Step, generation: int, now: datetime, settings: Settings
) -> list[Condition]:
    """All conditions after a step. A condition that a step says nothing about stays."""
    known = {condition.type: condition for condition in previous}
    wanted = _terminal(step, known) if step.phase in TERMINAL_PHASES else _working(step, known, now, settings)
    composed = []
    for kind in ConditionType:
        before = known.get(kind)
        if kind in wanted:
            composed.append(_condition(kind, wanted[kind], before, generation, now))
        elif before is not None:
            composed.append(before.model_copy(update={"observed_generation": generation}))
    return composed


def observe(previous: Sequence[Condition], generation: int) -> list[Condition]:
    """The same conditions for a newer spec: a finished BatchJob doesn't change with it."""
    return [condition.model_copy(update={"observed_generation": generation}) for condition in previous]


def _terminal(step: Step, known: dict[str, Condition]) -> dict[ConditionType, _State]:
    ended = ConditionType.COMPLETE if step.phase is Phase.COMPLETED else ConditionType.FAILED
    states: dict[ConditionType, _State] = {
        ended: ("True", step.reason, step.message),
        ConditionType.RECONCILING: ("False", step.reason, step.message),
    }
    if ConditionType.FAILURE_TARGET in known:
        states[ConditionType.FAILURE_TARGET] = ("True", step.reason, known[ConditionType.FAILURE_TARGET].message)
    for kind in (ConditionType.STALLED, ConditionType.SUSPENDED):
        if kind in known:
            states[kind] = ("False", step.reason, "")
    if step.phase is Phase.COMPLETED and ConditionType.SERVER_AVAILABLE in known:
        states[ConditionType.SERVER_AVAILABLE] = ("True", Reason.SERVER_ANSWERS, "The model server answered.")
    return states


def _working(step: Step, known: dict[str, Condition], now: datetime, settings: Settings) -> dict[ConditionType, _State]:
    stalled = is_stalled(step, now, settings)
    states: dict[ConditionType, _State] = {
        ConditionType.RECONCILING: ("False" if stalled else "True", step.reason, step.message)
    }
    if stalled and step.blocker is not None:
        states[ConditionType.STALLED] = ("True", step.blocker.reason, step.blocker.message)
    elif ConditionType.STALLED in known:
        states[ConditionType.STALLED] = ("False", step.reason, "")
    if step.failure_target is not None:
        target = step.failure_target
        states[ConditionType.FAILURE_TARGET] = ("True", target.reason, target.message)
    if step.suspended:
        states[ConditionType.SUSPENDED] = ("True", Reason.SUSPENDED, step.message)
    elif ConditionType.SUSPENDED in known:
        states[ConditionType.SUSPENDED] = ("False", Reason.NOT_SUSPENDED, "")
    if step.server is not None:
        states[ConditionType.SERVER_AVAILABLE] = (
            ("True", Reason.SERVER_ANSWERS, "The model server answered.")
            if step.server.available
            else ("False", step.server.reason, server_message(step))
        )
    return states


def _condition(
    kind: ConditionType, state: _State, before: Condition | None, generation: int, now: datetime
) -> Condition:
    status, reason, message = state
    unchanged = before is not None and before.status == status
    return Condition(
        type=kind.value,
        status=status,
        observed_generation=generation,
        last_transition_time=before.last_transition_time if unchanged and before is not None else now,
        reason=reason.value,
        message=message,
    )
