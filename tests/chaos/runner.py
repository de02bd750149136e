"""Carrying out a schedule: a loop over what is due and what is seen, with the cluster behind a small protocol."""

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chaos.observation import Job, Snapshot
from chaos.records import Carried, History, Outage, Taken
from chaos.script import Action, Kill, Schedule, Script, Step, Target
from chaos.victims import Victim, find_victim, losers, works_again
from chaos.watch import Watch

WARM_UP_SECONDS = 60.0
"""Kills wait for the first request to end, but no longer than this."""
PATIENCE_SECONDS = 60.0
"""For so long a kill waits for something of its kind to kill."""


class Unreachable(Exception):  # noqa: N818 - a state of the world, not a fault
    """The API server did not answer: what was asked for may have been done or not."""


class World(Protocol):
    """The cluster, as far as chaos touches it. All but the clock may raise Unreachable, and may then be tried again."""

    def now(self) -> float:
        """Seconds of a steady clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def observe(self) -> Snapshot:
        """What there is."""

    def apply(self, script: Script) -> None:
        """Create a BatchJob; one of its name may be there already, from a call whose answer was lost."""

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        """Change the spec of a BatchJob."""

    def delete(self, name: str) -> None:
        """Ask for the deletion of a BatchJob, which may be gone already."""

    def strike(self, kill: Kill, victim: Victim) -> bool:
        """Carry out a kill; False where the victim is gone. What is to be away for a while comes back by itself."""

    def away(self) -> Collection[Target]:
        """What is away on purpose, for a while."""


@dataclass(slots=True)
class _Course:
    """How far a script is."""

    script: Script
    applied_at: float | None = None
    next_step: int = 0
    last_at: float = 0.0
    leaving: str = ""
    """UID of the BatchJob that is deleted in order to be applied again."""
    ended: bool = False

    @property
    def step(self) -> Step | None:
        steps = self.script.steps
        return steps[self.next_step] if self.next_step < len(steps) else None


@dataclass(slots=True)
class _Open:
    """A kill whose victim does not work again yet."""

    carried: Carried
    victim: Victim


class Runner:
    """One run of one schedule."""

    def __init__(self, world: World, schedule: Schedule, *, seconds: float, tick: float, say: Callable[[str], None]):
        """seconds: after which the run ends, whatever is left; tick: seconds between two looks at the cluster."""
        self._world, self._schedule, self._say, self._tick = world, schedule, say, tick
        self._start = world.now()
        self._seen = Snapshot({}, ())
        self._deadline = seconds
        self._courses = [_Course(script) for script in schedule.scripts]
        self._due = sorted(schedule.kills, key=lambda kill: kill.at)
        self._kills_from: float | None = None
        self._open: list[_Open] = []
        self._hit_workers: list[Victim] = []
        self._carried: list[Carried] = []
        self._undone: list[Kill] = []
        self._steps: list[Taken] = []
        self._outages: list[Outage] = []
        self._oddities: list[str] = []
        self._watch = Watch()

    def run(self) -> History:
        """Carry out everything, until every BatchJob has ended or time is up."""
        while not all(course.ended for course in self._courses) and self._now() < self._deadline:
            self._turn()
            self._world.sleep(self._tick)
        seconds = self._now()
        self._undone += self._due
        self._settle()
        return self._history(seconds)

    def _now(self) -> float:
        return self._world.now() - self._start

    def _turn(self) -> None:
        # Without an API server nothing is seen and nothing can be asked for: the next turn does it.
        with contextlib.suppress(Unreachable):
            self._seen = self._world.observe()
            self._oddities += self._watch.see(self._seen)
            self._look_for_recovery(self._seen)
            for course in self._courses:
                self._advance(course, self._seen)
        if self._kills_from is None and (self._is_warm() or self._now() >= WARM_UP_SECONDS):
            self._kills_from = self._now()
        for kill in [kill for kill in self._due if self._is_late(kill, 0)]:
            # Containers are killed without it, those that were seen last: kills may coincide.
            with contextlib.suppress(Unreachable):
                if self._kill(kill, self._seen):
                    self._due.remove(kill)

    def _settle(self) -> None:
        """Wait until all is back and ready, so that what was published can be read, and the next one finds it whole."""
        while self._now() < self._deadline + 300:
            with contextlib.suppress(Unreachable):
                seen = self._world.observe()
                self._look_for_recovery(seen)
                lasting = (Target.OPERATOR, Target.MODEL_SERVER, Target.STORAGE)
                if not self._world.away() and all(any(p.ready for p in seen.of(t)) for t in lasting):
                    break
            self._world.sleep(self._tick)

    # BatchJobs

    def _advance(self, course: _Course, seen: Snapshot) -> None:
        now, name = self._now(), course.script.name
        if course.applied_at is None:
            if now >= course.script.start:
                self._world.apply(course.script)
                course.applied_at = course.last_at = now
                self._say(f"{now:6.1f}  {name}: applied")
            return
        job = seen.jobs.get(name)
        if course.leaving:
            self._apply_again(course, job)
        elif job is not None:
            self._step(course, job)

    def _step(self, course: _Course, job: Job) -> None:
        step = course.step
        if step is None:
            if job.terminal and not course.ended:
                self._say(f"{self._now():6.1f}  {job.name}: {job.phase}")
            course.ended = job.terminal
        elif job.terminal and not step.at_end:
            course.next_step += 1
        elif self._is_due(step, course, job):
            self._take(step.action, course, job)

    def _is_due(self, step: Step, course: _Course, job: Job) -> bool:
        if step.at_end:
            return job.terminal
        return job.progress >= step.progress and self._now() - course.last_at >= step.pause

    def _take(self, action: Action, course: _Course, job: Job) -> None:
        match action:
            case Action.SUSPEND | Action.RESUME:
                self._world.patch(job.name, {"suspend": action is Action.SUSPEND})
            case Action.CANCEL:
                self._world.patch(job.name, {"cancel": True})
            case Action.APPLY_AGAIN:
                self._world.delete(job.name)
                course.leaving = job.uid
        self._steps.append(Taken(job.name, action, self._now(), live=not job.terminal))
        self._say(f"{self._now():6.1f}  {job.name}: {action}, {job.phase} with {job.done}/{job.total}")
        course.last_at = self._now()
        if action is not Action.APPLY_AGAIN:
            course.next_step += 1

    def _apply_again(self, course: _Course, job: Job | None) -> None:
        if job is not None and job.uid == course.leaving:
            if not job.deleting:
                self._world.delete(job.name)
            return
        if job is None:
            self._world.apply(course.script)
        course.leaving = ""
        course.next_step += 1
        course.last_at = self._now()

    # kills

    def _is_warm(self) -> bool:
        return any(job.done for job in self._seen.jobs.values())

    def _is_late(self, kill: Kill, seconds: float) -> bool:
        """Whether a kill has been due for so long."""
        return self._kills_from is not None and self._now() >= self._kills_from + kill.at + seconds

    def _kill(self, kill: Kill, seen: Snapshot) -> bool:
        """Carry out a kill, or give it up; False where it has to wait."""
        roles = [pod.role for victim in self._hit_workers for pod in victim.pods]
        victim = None if kill.target in self._world.away() else find_victim(kill, seen, roles)
        if victim is None or not self._world.strike(kill, victim):
            if not self._is_late(kill, PATIENCE_SECONDS):
                return False
            self._undone.append(kill)
            return True
        carried = Carried(kill, self._now(), victim.name, losers(kill, victim, seen, self._schedule.scripts))
        self._open.append(_Open(carried, victim))
        self._carried.append(carried)
        if kill.target is Target.WORKER:
            self._hit_workers.append(victim)
        self._say(f"{carried.at:6.1f}  {kill.target}: {kill.manner} ({victim.name})")
        return True

    def _look_for_recovery(self, seen: Snapshot) -> None:
        for one in list(self._open):
            since = self._now() - one.carried.at
            if since < one.carried.kill.seconds and one.carried.target is Target.API_SERVER:
                continue  # it answered before it went away
            well = works_again(one.carried.kill, one.victim, seen)
            if well is not False:
                self._close(one, since if well else None)

    def _close(self, one: _Open, seconds: float | None) -> None:
        self._open.remove(one)
        self._carried[self._carried.index(one.carried)] = replace(one.carried, recovered=seconds)
        if one.carried.target is Target.STORAGE:
            self._outages.append(Outage(one.carried.at, self._now()))

    def _history(self, seconds: float) -> History:
        for one in list(self._open):
            self._close(one, None)
        left = [course.script.name for course in self._courses if not course.ended]
        late = [f"{name} has not ended after {seconds:.0f} s" for name in left]
        return History(
            kills=tuple(self._carried),
            steps=tuple(self._steps),
            storage_outages=tuple(self._outages),
            seconds=seconds,
            undone=tuple(self._undone),
            oddities=tuple(self._oddities + late),
        )
