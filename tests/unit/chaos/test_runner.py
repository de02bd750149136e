"""The loop that carries out a schedule, in a world where a tick is a second."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.observation import Job, Pod, Snapshot
from chaos.records import History
from chaos.runner import Runner, Unreachable
from chaos.script import Action, Kill, Kind, Schedule, Script, Step, Target
from chaos.victims import Victim
from fixtures.chaos import job, kill, pod, script

ENDS = 20
"""A BatchJob of this world is done after so many seconds of running."""
FIRST_DONE = 1
"""Its first request has ended after so many."""


@dataclass
class FakeWorld:
    """BatchJobs that get on by one line a second, unless suspended; containers that are back after three."""

    clock: float = 1000.0
    jobs: dict[str, Job] = field(default_factory=dict)
    unreachable: Collection[int] = ()
    """Seconds from the beginning in which the API server doesn't answer."""
    struck: list[tuple[float, Kill, Victim]] = field(default_factory=list)
    deleted_at: dict[str, float] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    deletion_seconds: float = 3.0

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        for one in list(self.jobs.values()):
            if one.name in self.deleted_at and self.clock - self.deleted_at[one.name] >= self.deletion_seconds:
                del self.jobs[one.name], self.deleted_at[one.name]
            elif not one.terminal and not one.suspended:
                done = one.done + 1
                self.jobs[one.name] = replace(one, done=done, phase="completed" if done == ENDS else "in_progress")

    def observe(self) -> Snapshot:
        self._answer()
        return Snapshot(dict(self.jobs), tuple(self._pods()))

    def apply(self, script: Script) -> None:
        self._answer()
        number = self.generations[script.name] = self.generations.get(script.name, 0) + 1
        self.jobs[script.name] = job(script.name, "pending", uid=f"{script.name}-{number}", total=ENDS)

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        self._answer()
        one = self.jobs[name]
        phase = "cancelled" if spec.get("cancel") and not one.terminal else one.phase
        self.jobs[name] = replace(one, suspended=spec.get("suspend", one.suspended), phase=phase)

    def delete(self, name: str) -> None:
        self._answer()
        self.deleted_at.setdefault(name, self.clock)
        self.jobs[name] = replace(self.jobs[name], deleting=True)

    def strike(self, kill: Kill, victim: Victim) -> bool:
        self.struck.append((self.clock - 1000, kill, victim))
        return True

    def away(self) -> Collection[Target]:
        return {kill.target for at, kill, _ in self.struck if kill.seconds and self.clock - 1000 < at + kill.seconds}

    def _answer(self) -> None:
        if int(self.clock - 1000) in self.unreachable:
            raise Unreachable

    def _pods(self) -> list[Pod]:
        lasting = {"operator": Target.OPERATOR, "s3": Target.STORAGE, "server": Target.MODEL_SERVER}
        pods = [pod(name, target) for name, target in lasting.items()]
        pods += [pod(f"{one.name}-0", job=one.name) for one in self.jobs.values() if not one.terminal]
        return [self._as_struck(one) for one in pods]

    def _as_struck(self, one: Pod) -> Pod:
        strikes = [at for at, _, victim in self.struck for hit in victim.pods if hit.name == one.name]
        if not strikes:
            return one
        back = self.clock - 1000 - strikes[-1] >= 3
        return replace(one, container=f"{one.name}-{len(strikes)}", ready=back, running=back)


def play(world: FakeWorld, *scripts: Script, kills: tuple[Kill, ...] = (), seconds: float = 200) -> History:
    schedule = Schedule(1, scripts, kills)
    return Runner(world, schedule, seconds=seconds, tick=1.0, say=lambda _: None).run()


def actions(history: History) -> list[Action]:
    return [step.action for step in history.steps]


def test_batchjobs_are_applied_at_their_time_and_waited_for() -> None:
    history = play(FakeWorld(), script(name="a"), script(name="b", start=10.0))
    assert history.oddities == ()
    assert history.seconds >= 10 + ENDS


def test_a_suspended_batchjob_is_resumed_after_its_pause() -> None:
    steps = (Step(Action.SUSPEND, progress=0.5), Step(Action.RESUME, pause=7))
    history = play(FakeWorld(), script(Kind.SUSPEND, steps=steps))
    suspended, resumed = history.steps
    assert actions(history) == [Action.SUSPEND, Action.RESUME]
    assert resumed.at - suspended.at >= 7
    assert history.oddities == ()


def test_a_step_that_comes_too_late_is_left_out() -> None:
    late = (Step(Action.CANCEL, pause=ENDS + 10),)
    assert actions(play(FakeWorld(), script(Kind.CANCEL, steps=late))) == []


def test_what_was_cancelled_is_applied_again_once_it_is_gone() -> None:
    world = FakeWorld()
    steps = (Step(Action.CANCEL, progress=0.3), Step(Action.APPLY_AGAIN, at_end=True))
    history = play(world, script(Kind.CANCEL_AND_AGAIN, steps=steps))
    assert actions(history) == [Action.CANCEL, Action.APPLY_AGAIN]
    assert (world.generations, world.jobs["job"].phase) == ({"job": 2}, "completed")


def test_the_api_server_may_be_away_at_any_moment() -> None:
    for away in range(0, 30, 3):
        world = FakeWorld(unreachable=range(away, away + 4))
        steps = (Step(Action.APPLY_AGAIN, progress=0.3),)
        history = play(world, script(Kind.DELETE_AND_AGAIN, steps=steps))
        assert (world.generations, actions(history)) == ({"job": 2}, [Action.APPLY_AGAIN])
        assert history.oddities == ()


def test_a_kill_is_carried_out_once_and_watched_until_its_victim_works_again() -> None:
    world = FakeWorld()
    history = play(world, script(), kills=(kill(Target.STORAGE), kill(Target.WORKER, at=12.0)))
    assert [one.target for _, one, _ in world.struck] == [Target.STORAGE, Target.WORKER]
    assert [one.recovered for one in history.kills] == [3.0, 3.0]
    (outage,) = history.storage_outages
    assert (outage.start, outage.end) == (history.kills[0].at, history.kills[0].at + 3)
    assert history.kills[1].workers == {"job": 1}


def test_containers_are_killed_while_the_api_server_is_away() -> None:
    world = FakeWorld(unreachable=range(FIRST_DONE + 9, FIRST_DONE + 14))
    play(world, script(), kills=(kill(Target.WORKER),))
    assert [at for at, _, _ in world.struck] == [FIRST_DONE + 10]


def test_kills_wait_until_a_request_has_ended() -> None:
    world = FakeWorld()
    play(world, script(start=30.0), kills=(kill(Target.OPERATOR, at=5.0),))
    assert [at for at, _, _ in world.struck] == [30 + FIRST_DONE + 5]


def test_kills_do_not_wait_for_ever() -> None:
    world = FakeWorld()
    play(world, script(start=90.0), kills=(kill(Target.OPERATOR, at=5.0),))
    assert [at for at, _, _ in world.struck] == [65.0]


def test_a_kill_waits_for_its_victim() -> None:
    world = FakeWorld()
    play(world, script(name="a"), script(name="b", start=40.0), kills=(kill(Target.WORKER, at=ENDS + 5),))
    assert [at for at, _, _ in world.struck] == [41.0]


def test_a_kill_without_a_victim_holds_up_no_other() -> None:
    world = FakeWorld()
    kills = (kill(Target.NODE, at=2.0), kill(Target.OPERATOR, at=3.0))
    play(world, script(), kills=kills)
    assert [one.target for _, one, _ in world.struck] == [Target.OPERATOR]


def test_kills_after_the_end_are_not_carried_out_and_told() -> None:
    world = FakeWorld()
    late = kill(Target.OPERATOR, at=500.0)
    history = play(world, script(), kills=(late,))
    assert (world.struck, history.undone) == ([], (late,))


def test_the_api_server_is_not_paused_twice_at_once() -> None:
    world = FakeWorld()
    kills = (kill(Target.API_SERVER, at=2.0, seconds=9.0), kill(Target.API_SERVER, at=4.0, seconds=2.0))
    history = play(world, script(), kills=kills)
    first, second = history.kills
    assert second.at >= first.at + 9
    assert first.recovered is not None
    assert first.recovered >= 9


def test_a_batchjob_that_does_not_end_is_told() -> None:
    history = play(FakeWorld(), script(steps=(Step(Action.SUSPEND),)), seconds=60)
    assert history.oddities == ("job has not ended after 60 s",)
