"""BatchJobs through random histories, in a cluster in memory with the real controller over it.

Whatever happened before: applied twice `reconcile` plans nothing new, an end is final, counts never fall, no finished
line is done again, and once the world behaves, the BatchJob ends, with each line published once. What must hold at
every write stands in fixtures/world/laws.py, what at the end in fixtures/world/ending.py.
"""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.controller.core.plan_of_actions import DeleteJob, DeletePod, MarkPodFailed
from fixtures.world.api_server import KINDS, Raw
from fixtures.world.cluster import NODES
from fixtures.world.ending import run_to_the_end
from fixtures.world.laws import TRANSITIONS
from fixtures.world.looks import check_rest
from fixtures.world.object_store import LINES
from fixtures.world.operator import Look, Trouble
from fixtures.world.people import People
from fixtures.world.workers import failure
from fixtures.world.world import World

REPOSITORY = Path(__file__).parents[2]
MOST_LOOKS = 6
LENGTH = int(os.environ.get("BATCHWRIGHT_HISTORIES", "1"))
"""How many times the usual number of histories: `make chaos` asks for more."""
numbers = st.integers(0, 2**16)
lags = st.fixed_dictionaries({kind: st.integers(0, 12) for kind in KINDS if kind not in ("nodes", "events")})
EVENTS = (
    "nothing",
    "cancel",
    "cancel",
    "suspend",
    "expire",
    "too many fail",
    "workers stop in between",
    "workers stop in between",
    "workers fail for good",
    "children vanish",
    "node lost",
)
endings = st.sampled_from(
    [
        (137, None, "OOMKilled"),
        (1, None, "Error"),
        (0, None, "Completed"),  # such as a pod that was preempted just then
        (*failure(ExitCode.UNEXPECTED, Reason.STORAGE_UNREACHABLE, final=False), "Error"),
        (*failure(ExitCode.INPUT_CHANGED, Reason.INPUT_CHANGED), "Error"),
    ]
)


class Histories(People, RuleBasedStateMachine):
    """Random things happen; between them an operator looks, now and then."""

    disorder = False
    """Whether operators may see the past, and nodes be lost: without that, the laws are stricter."""

    @initialize(
        given=st.fixed_dictionaries(
            {"sharding": st.fixed_dictionaries({"parallelism": st.integers(1, 3)})},
            optional={
                "completionWindow": st.just("1h"),
                "queueName": st.just("batch"),
                "requests": st.just({"maxFailures": 2}),
            },
        ),
        outcomes=st.dictionaries(st.integers(0, LINES - 1), st.sampled_from(["400", "500"]), max_size=4),
        earlier=st.sampled_from([None, None, None, None, "ends", "is cancelled", "is deleted"]),
        rounds=st.sampled_from([3, 4, 0, 1, 2, 3, 4, 5, 6, 7]),
        disorder=st.booleans(),
        late=st.booleans(),
        event=st.sampled_from(EVENTS),
        rounds_after=st.integers(0, 3),
    )
    def begin(
        self,
        *,
        given: dict[str, Any],
        outcomes: dict[int, str],
        earlier: str | None,
        rounds: int,
        disorder: bool,
        late: bool,
        event: str,
        rounds_after: int,
    ) -> None:
        """Histories begin at any stage, maybe after an earlier BatchJob, and with something that happens then: chance
        alone would seldom get far."""
        self.world = World(given)
        self.world.server.outcomes = outcomes
        self.disorder = disorder
        if earlier is not None:
            self.an_earlier_one(earlier)
            self.world.apply(given)
        for _ in range(rounds):
            self.all_goes_well_for_a_while(2)
        self.world.cluster.pods_end_late = late
        self.happen(event)
        for _ in range(rounds_after):
            self.all_goes_well_for_a_while(1)

    def happen(self, event: str) -> None:
        match event:
            case "cancel" | "suspend":
                self.world.change(**{event: True})
            case "expire":
                self.world.change(completionWindow="1s")
            case "too many fail":
                self.world.change(requests={"maxFailures": 0})
            case "workers stop in between":
                self.a_container_dies(0, (0, None, "Completed"), everywhere=True)
            case "workers fail for good":
                self.containers_die_again_and_again((1, None, "Error"), 8)
            case "children vanish":
                for name in list(self.world.api.all("jobs")):
                    self.world.api.delete("jobs", name)
            case "node lost":
                self.a_node_is_lost_for_good()

    def an_earlier_one(self, end: str) -> None:
        """A BatchJob of the same name and input that is gone by now."""
        for number in range(9):
            self.all_goes_well_for_a_while(2)
            if number == 2 and end == "is cancelled":
                self.world.change(cancel=True)
            if number == 3 and end == "is deleted":
                break
        self.delete()

    # The operators

    @rule(woken=st.booleans())
    def an_operator_looks(self, woken: bool) -> None:
        """While nothing else happens, the looks that follow have nothing to do: at once, or, where the first one
        changed what it saw, soon."""
        for number in range(MOST_LOOKS):
            look = self.world.look(woken=woken or number > 0)
            if look.plan is None or not look.carried_out or self.world.is_blocked(look.plan):
                return
            if number and look.plan.changes_nothing:
                assert look.observed is not None
                check_rest(look.observed)
                return
            if (woken or number) and not _changes_what_it_saw(look):
                again = self.world.decide()
                assert again is None or again.changes_nothing, f"a second look has more to do: {again}"
        raise AssertionError("it doesn't come to rest")

    @precondition(lambda self: self.disorder)
    @rule(seen=lags, number=st.integers(0, 1))
    def an_operator_sees_the_past(self, seen: dict[str, int], number: int) -> None:
        self.world.look(number, Trouble(lags=seen))

    @precondition(lambda self: self.disorder)
    @rule(number=st.sampled_from([0, 0, 1]), woken=st.booleans())
    def another_operator_looks(self, number: int, woken: bool) -> None:
        self.world.look(number, woken=woken)

    @rule(writes=st.integers(0, 3))
    def an_operator_dies_while_it_acts(self, writes: int) -> None:
        self.world.look(trouble=Trouble(writes=writes))

    @rule(number=st.integers(1, 3))
    def an_answer_is_lost(self, number: int) -> None:
        self.world.look(trouble=Trouble(lost_answer=number))

    @rule()
    def the_api_server_is_away(self) -> None:
        self.world.look(trouble=Trouble(away=True))

    @rule()
    def an_operator_restarts(self) -> None:
        self.world.operators[0].restart()

    # The cluster

    @rule(amount=st.sampled_from([2, 4, 100]))
    def all_goes_well_for_a_while(self, amount: int) -> None:
        self.world.look()
        self.world.pass_time(seconds=15)
        self.world.all_goes_well(amount)

    @rule(amount=st.integers(1, 3))
    def workers_work(self, amount: int) -> None:
        self.world.work(amount)

    @rule()
    def controllers_look(self) -> None:
        self.world.sync()

    @rule()
    def pods_start(self) -> None:
        self.world.start_pods()

    @rule(number=numbers, reason=st.sampled_from(["Unschedulable", "ImagePullBackOff", "CreateContainerConfigError"]))
    def a_pod_does_not_start(self, number: int, reason: str) -> None:
        pod = _pick(self.world.cluster.living(), number)
        if pod is not None:
            self.world.cluster.does_not_start(pod, NODES[number % 2], reason)

    @rule(number=numbers, ending=endings, everywhere=st.booleans())
    def a_container_dies(self, number: int, ending: tuple[int, Any, str], everywhere: bool) -> None:
        running = self.world.cluster.running()
        pod = _pick(running, number)
        code, report, reason = ending
        for dying in running if everywhere else [pod] if pod is not None else []:
            self.world.cluster.fail(dying, (code, report), self.world.now, reason)

    @rule(ending=endings, times=st.integers(2, 8))
    def containers_die_again_and_again(self, ending: tuple[int, Any, str], times: int) -> None:
        for _ in range(times):
            self.world.pass_time(minutes=10)
            self.world.sync()
            self.world.start_pods()
            self.a_container_dies(0, ending, everywhere=True)
            self.world.sync()

    @rule(number=numbers)
    def a_pod_is_evicted(self, number: int) -> None:
        pod = _pick(self.world.cluster.living(), number)
        if pod is not None:
            self.world.cluster.disrupt(pod)

    @rule(number=numbers)
    def a_pod_is_deleted(self, number: int) -> None:
        """By a person, or, if it has ended, by the collector of finished pods."""
        pod = _pick(list(self.world.api.all("pods").values()), number)
        if pod is not None:
            self.world.api.delete("pods", pod["metadata"]["name"])

    @rule(number=numbers, cascade=st.sampled_from(["background", "foreground", "orphan"]))
    def a_job_is_deleted(self, number: int, cascade: str) -> None:
        job = _pick(list(self.world.api.all("jobs").values()), number)
        if job is not None and cascade == "orphan":
            self.world.api.orphan(job["metadata"]["name"])
        elif job is not None:
            self.world.api.delete("jobs", job["metadata"]["name"], foreground=cascade == "foreground")

    @rule(admits=st.booleans())
    def the_queue_admits_or_holds(self, admits: bool) -> None:
        self.world.queue(admits=admits)

    @rule()
    def jobs_end_and_vanish_unseen(self) -> None:
        """The operator is down, and somebody tidies up meanwhile."""
        for _ in range(3):
            self.world.pass_time(seconds=20)
            self.world.all_goes_well(4)
        for name, job in list(self.world.api.all("jobs").items()):
            if job.get("status", {}).get("conditions"):
                self.world.api.delete("jobs", name)
        self.world.sync()

    @precondition(lambda self: self.disorder)
    @rule(number=st.integers(0, 1), dead=st.booleans())
    def a_node_is_lost(self, number: int, dead: bool) -> None:
        self.world.clear = False
        self.world.cluster.lose_node(NODES[number], self.world.now, dead=dead)

    @precondition(lambda self: self.disorder)
    @rule()
    def a_node_is_lost_for_good(self) -> None:
        self.world.one_node_stays_lost = True
        self.a_node_is_lost(len(NODES) - 1, dead=True)

    @rule(late=st.booleans())
    def pods_end_at_once_or_late(self, late: bool) -> None:
        self.world.cluster.pods_end_late = late

    @rule()
    def nodes_are_heard_again(self) -> None:
        self.world.cluster.heal_nodes(but_one=self.world.one_node_stays_lost)

    @rule()
    def the_configuration_is_deleted(self) -> None:
        for name in list(self.world.api.all("configmaps")):
            self.world.api.delete("configmaps", name)

    @rule(kind=st.sampled_from(["jobs", "configmaps", "pods", "", ""]))
    def admission_refuses_something_or_nothing(self, kind: str) -> None:
        self.world.api.refusal = {kind: "exceeded quota"} if kind in ("jobs", "configmaps") else {}
        self.world.jobs.refusal = "exceeded quota" if kind == "pods" else ""

    @rule(state=st.sampled_from(["there", "there", "away", "refuses"]))
    def the_model_server_is(self, state: str) -> None:
        self.world.server.away, self.world.server.refuses = state == "away", state == "refuses"

    @rule(refuses=st.booleans())
    def the_store_refuses(self, refuses: bool) -> None:
        self.world.store.refuses = refuses

    @rule(seconds=st.sampled_from([1, 20, 200, 1800]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds=seconds)

    # What must hold

    @invariant()
    def the_books_are_right(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        """The world behaves from now on: the BatchJob must end."""
        if hasattr(self, "world"):
            run_to_the_end(self.world)


def _changes_what_it_saw(look: Look) -> bool:
    """Whether it deleted something, got past a refusal, or only wrote down what it is about to do."""
    assert look.plan is not None
    assert look.observed is not None
    deletes = any(isinstance(action, DeleteJob | DeletePod | MarkPodFailed) for action in look.plan.actions)
    at_once = look.plan.wait is not None and look.plan.wait.after < timedelta(seconds=1)
    return deletes or at_once or bool(look.observed.refusals)


def _pick(items: list[Raw], number: int) -> Raw | None:
    return items[number % len(items)] if items else None


def test_phases_follow_each_other_as_it_is_drawn_in_the_documentation() -> None:
    """The table that every written status is held to, against the diagram that people read."""
    drawn = re.findall(r"^ *(\w+) --> (\w+)", (REPOSITORY / "docs" / "lifecycle.md").read_text(), re.MULTILINE)
    assert set(drawn) == {(before.value, after.value) for before in TRANSITIONS for after in TRANSITIONS[before]}


def _histories(number: int, steps: int) -> Any:
    """A test of so many histories. Short ones stay with what they began with, long ones meet with everything."""
    case = type("TestHistories", (Histories,), {}).TestCase
    case.settings = settings(
        max_examples=number * LENGTH,
        stateful_step_count=steps,
        phases=[phase for phase in Phase if phase is not Phase.explain],  # which would take minutes
    )
    return pytest.mark.timeout(300 * LENGTH)(case)


TestShortHistories = _histories(300, 6)
TestLongHistories = _histories(250, 30)
