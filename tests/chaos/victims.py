"""What a kill hits, and when that works again."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chaos.observation import Job, Pod, Snapshot
from chaos.script import Kill, Manner, Script, Target

KILLS_OF_A_WORKER = 2
"""A shard that kills its worker three times in a row is given up, rightly: no worker is killed that often."""
RUN = "run"
T = TypeVar("T")
PHASES_OF_STAGES: Mapping[str, frozenset[str]] = {
    "plan": frozenset({"validating"}),
    RUN: frozenset({"in_progress"}),
    "merge": frozenset({"finalizing", "cancelling"}),
}
"""The phases in which the pod of a stage that was lost is replaced."""


@dataclass(frozen=True, slots=True)
class Victim:
    """What a kill hits: pods, all those of a node, or the API server, which is none."""

    name: str
    pods: tuple[Pod, ...] = ()
    node: str = ""


def find_victim(kill: Kill, seen: Snapshot, earlier: Collection[tuple[str, str, str]] = ()) -> Victim | None:
    """What a kill hits just now; None where there is nothing of the kind. `earlier`: roles of workers killed before."""
    if kill.target is Target.API_SERVER:
        return Victim("API server")
    if kill.target is Target.NODE:
        node = _chosen(kill.draw, sorted(_expendable(seen)))
        return Victim(node, tuple(pod for pod in seen.pods if pod.node == node), node) if node else None
    counts = Counter(earlier)
    pods = [
        pod
        for pod in seen.of(kill.target)
        if pod.running and pod.container and not (pod.job and counts[pod.role] >= KILLS_OF_A_WORKER)
    ]
    pod = _chosen(kill.draw, sorted(pods, key=lambda pod: pod.name))
    return Victim(pod.name, (pod,)) if pod else None


def losers(kill: Kill, victim: Victim, seen: Snapshot, scripts: Sequence[Script]) -> dict[str, int]:
    """How many workers of the run lose something by a kill, for each BatchJob."""
    match kill.target:
        case Target.MODEL_SERVER:
            # Also those that start just now: all that there may be.
            live = (seen.jobs.get(script.name) for script in scripts)
            running = {job.name for job in live if job and not job.terminal}
            return {script.name: script.workers for script in scripts if script.name in running}
        case Target.WORKER | Target.NODE:
            return dict(Counter(pod.job for pod in victim.pods if pod.stage == RUN))
        case _:
            return {}


def works_again(kill: Kill, victim: Victim, seen: Snapshot) -> bool | None:
    """Whether all that was hit is replaced and ready; None where nothing of it is wanted any more."""
    if kill.target is Target.API_SERVER:
        return True
    if kill.target in (Target.WORKER, Target.NODE):
        wanted = [pod for pod in victim.pods if pod.job and _wanted(pod, seen.jobs.get(pod.job))]
        return all(_replaced(pod, seen) for pod in wanted) if wanted else None
    before = {pod.container for pod in victim.pods}
    return any(pod.ready and pod.container not in before for pod in seen.of(kill.target))


def _wanted(pod: Pod, job: Job | None) -> bool:
    return job is not None and not job.suspended and not job.deleting and job.phase in PHASES_OF_STAGES[pod.stage]


def _replaced(lost: Pod, seen: Snapshot) -> bool:
    return any(pod.ready and pod.role == lost.role and pod.container != lost.container for pod in seen.pods)


def _expendable(seen: Snapshot) -> set[str]:
    """Nodes with workers on them, and without what would be lost with the node: the storage and the arrival log."""
    kept = {pod.node for target in (Target.STORAGE, Target.MODEL_SERVER) for pod in seen.of(target)}
    return {pod.node for pod in seen.of(Target.WORKER) if pod.running} - kept


def _chosen(draw: float, candidates: Sequence[T]) -> T | None:
    return candidates[int(draw * len(candidates))] if candidates else None


def is_by_container(manner: Manner) -> bool:
    """Whether a signal to the container's first process does it."""
    return manner in (Manner.CRASH, Manner.STOP)
