"""What a stage found: the phase, why, what to do next. Conditions, timestamps and Events are composed from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.api.conditions import Phase, Reason
from batchwright.api.status import MAX_VALIDATION_ERRORS
from batchwright.controller.core.blockers import Blocker, ServerState
from batchwright.controller.core.plan_of_actions import Action, Wait
from batchwright.controller.core.reports import Failure


@dataclass(frozen=True, slots=True)
class Advance:
    """The stage is over: the next one goes on with these fields of the status as written."""

    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one look at a stage.

    `reason` and `message` belong to Reconciling, or, in a terminal phase, to Complete or Failed. `facts` are fields of
    the status that this step learned. `server` is None where nobody knows.
    """

    phase: Phase
    reason: Reason
    message: str
    actions: tuple[Action, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    blocker: Blocker | None = None
    server: ServerState | None = None
    suspended: bool = False
    failure_target: Failure | None = None
    """Why the BatchJob will have failed, from when on nothing else may become of it."""
    wait: Wait | None = None


def failed(failure: Failure) -> Step:
    """The BatchJob has failed, with what the pod reported."""
    report = failure.report
    facts: dict[str, Any] = {}
    if report is not None and report.validation_errors:
        facts["validation_errors"] = list(report.validation_errors[:MAX_VALIDATION_ERRORS])
    if report is not None and report.validation_error_count is not None:
        facts["validation_error_count"] = report.validation_error_count
    if report is not None and report.validation_errors_uri:
        facts["validation_errors_uri"] = report.validation_errors_uri
    return Step(Phase.FAILED, failure.reason, failure.message, facts=facts)
