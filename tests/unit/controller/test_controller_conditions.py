"""Conditions: what is true when, and when a transition is dated."""

import pytest

from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.status import Condition
from batchwright.controller.core import conditions
from batchwright.controller.core.blockers import Blocker, ServerState
from batchwright.controller.core.step import Step
from batchwright.controller.settings import Settings
from builders import NOW, ago

WORKING = Step(Phase.IN_PROGRESS, Reason.RUNNING, "Running.")
EARLIER = ago(hours=1)


def compose(step: Step, previous: list[Condition] | None = None, generation: int = 1) -> dict[str, Condition]:
    composed = conditions.compose(previous or [], step, generation, NOW, Settings())
    return {condition.type: condition for condition in composed}


def condition(kind: ConditionType, status: str, reason: str = "Running") -> Condition:
    return Condition.model_validate(
        {
            "type": kind.value,
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": EARLIER,
        }
    )


@pytest.mark.parametrize(
    ("phase", "reason", "true"),
    [
        (Phase.PENDING, Reason.PENDING, {"Reconciling"}),
        (Phase.VALIDATING, Reason.VALIDATING, {"Reconciling"}),
        (Phase.IN_PROGRESS, Reason.RUNNING, {"Reconciling"}),
        (Phase.FINALIZING, Reason.MERGING, {"Reconciling"}),
        (Phase.CANCELLING, Reason.CANCELLING, {"Reconciling"}),
        (Phase.COMPLETED, Reason.COMPLETED, {"Complete"}),
        (Phase.FAILED, Reason.INVALID_INPUT, {"Failed"}),
        (Phase.CANCELLED, Reason.CANCELLED, {"Failed"}),
        (Phase.EXPIRED, Reason.EXPIRED, {"Failed"}),
    ],
)
def test_every_phase_has_the_condition_that_waits_look_for(phase: Phase, reason: Reason, true: set[str]) -> None:
    composed = compose(Step(phase, reason, "why"))
    assert {name for name, item in composed.items() if item.status == "True"} == true
    assert all(composed[name].reason == reason.value for name in true)


def test_the_transition_time_changes_only_with_the_status() -> None:
    before = [condition(ConditionType.RECONCILING, "True", "Pending")]
    working = compose(WORKING, before)["Reconciling"]
    assert (working.last_transition_time, working.reason) == (EARLIER, "Running")
    ended = compose(Step(Phase.COMPLETED, Reason.COMPLETED, "done"), before)["Reconciling"]
    assert ended.last_transition_time == NOW


def test_every_condition_carries_the_generation() -> None:
    before = [condition(ConditionType.SERVER_AVAILABLE, "True"), condition(ConditionType.RECONCILING, "True")]
    assert {item.observed_generation for item in compose(WORKING, before, generation=7).values()} == {7}


def test_stalled_is_damped_and_ends_what_reconciling_promises() -> None:
    young = Blocker(Reason.SECRET_MISSING, "create it", ago(seconds=5))
    old = Blocker(Reason.SECRET_MISSING, "create it", ago(seconds=30))
    slow = compose(Step(Phase.PENDING, Reason.PENDING, "create it", blocker=young))
    assert slow["Reconciling"].status == "True"
    assert "Stalled" not in slow
    still = compose(Step(Phase.PENDING, Reason.PENDING, "create it", blocker=old))
    assert (still["Stalled"].status, still["Stalled"].reason) == ("True", "SecretMissing")
    assert still["Reconciling"].status == "False"


def test_a_standstill_that_is_over_shows_as_false() -> None:
    composed = compose(WORKING, [condition(ConditionType.STALLED, "True", "SecretMissing")])
    assert composed["Stalled"].status == "False"
    assert composed["Reconciling"].status == "True"


@pytest.mark.parametrize(("server", "status"), [(ServerState(True), "True"), (ServerState(False, "refused"), "False")])
def test_an_outage_is_shown_and_is_no_standstill(server: ServerState, status: str) -> None:
    composed = compose(Step(Phase.IN_PROGRESS, Reason.RUNNING, "", server=server))
    assert composed["ServerAvailable"].status == status
    assert composed["Reconciling"].status == "True"


def test_what_nobody_knows_about_the_server_stays() -> None:
    composed = compose(WORKING, [condition(ConditionType.SERVER_AVAILABLE, "False", "ServerAway")])
    assert (composed["ServerAvailable"].status, composed["ServerAvailable"].last_transition_time) == ("False", EARLIER)


def test_suspended_comes_and_goes() -> None:
    suspended = compose(Step(Phase.IN_PROGRESS, Reason.SUSPENDED, "", suspended=True))
    assert suspended["Suspended"].status == "True"
    assert compose(WORKING, list(suspended.values()))["Suspended"].status == "False"


def test_a_long_message_is_cut() -> None:
    composed = compose(Step(Phase.FAILED, Reason.PLAN_FAILED, "x" * 100_000))
    assert len(composed["Failed"].message) == 2048
