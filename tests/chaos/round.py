"""One round of chaos on the cluster: a schedule carried out and checked."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from hack.quickstart import kubectl_command

from chaos.bound import allowance
from chaos.checker import Outcome, violations
from chaos.cluster_world import NAMESPACE, OPERATOR_NAMESPACE, ROOT, ClusterWorld
from chaos.collection import collect, prepare
from chaos.observation import Snapshot
from chaos.records import History
from chaos.runner import Runner
from chaos.script import Schedule

STORIES = ROOT / ".pytest_cache" / "chaos"


@dataclass(frozen=True, slots=True)
class Round:
    """What came of a schedule."""

    schedule: Schedule
    history: History
    outcomes: tuple[Outcome, ...]
    violations: tuple[str, ...]

    def allowed_twice(self, outcome: Outcome) -> int:
        """So many requests of a BatchJob may have been sent twice."""
        return allowance(outcome.script, self.history)


def play(
    schedule: Schedule, kubeconfig: Path, label: str, *, seconds: float, tick: float, say: Callable[[str], None] = print
) -> Round:
    """Carry out a schedule and check what came of it. What is wrong is returned, and its story kept in a folder."""
    say(f"chaos with seed {schedule.seed}: {len(schedule.scripts)} BatchJobs, {len(schedule.kills)} kills")
    prepare(schedule.scripts)
    world = ClusterWorld(kubeconfig, label)
    try:
        history = Runner(world, schedule, seconds=seconds, tick=tick, say=say).run()
        seen = world.observe()
    finally:
        world.close()
    outcomes = tuple(collect(schedule.scripts, seen))
    found = [*history.oddities]
    for outcome in outcomes:
        found += violations(outcome, history, allowance(outcome.script, history))
    result = Round(schedule, history, outcomes, tuple(found))
    for text in _summary(result):
        say(text)
    if found:
        say(f"the story is in {_keep_story(result, seen)}")
    return result


def _summary(result: Round) -> Iterator[str]:
    for outcome in result.outcomes:
        name, lines = outcome.script.name, outcome.script.lines
        told = f"{len(outcome.results)} results and {len(outcome.errors)} errors of {lines} lines"
        again = f"{outcome.sent_twice} of at most {result.allowed_twice(outcome)} requests sent again"
        yield f"{name}: {outcome.phase}, {told}, {again}"
    for kill in result.history.kills:
        if kill.recovered is not None:
            yield f"{kill.target}, {kill.manner} at {kill.at:.1f}: works again after {kill.recovered:.1f} s"


def _keep_story(result: Round, seen: Snapshot) -> Path:
    """Everything by which a failure can be understood when its cluster is gone."""
    folder = STORIES / f"seed-{result.schedule.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "violations.txt").write_text("\n".join(result.violations) + "\n")
    for name, value in (("schedule", result.schedule), ("history", result.history)):
        text = msgspec.json.format(msgspec.json.encode(value), indent=1)
        (folder / f"{name}.json").write_bytes(text)
    for outcome in result.outcomes:
        for kind, lines in (("results", outcome.results), ("errors", outcome.errors), ("retry", outcome.retry)):
            (folder / f"{outcome.script.name}-{kind}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        (folder / f"{outcome.script.name}-arrived.json").write_text(json.dumps(dict(outcome.arrived)))
    operator = ("--namespace", OPERATOR_NAMESPACE, "logs", "--selector=app.kubernetes.io/name=batchwright-operator")
    _keep(folder / "batchjobs.txt", "--namespace", NAMESPACE, "describe", "batchjobs")
    _keep(folder / "pods.txt", "get", "jobs,pods", "--all-namespaces", "-o", "wide")
    _keep(folder / "events.txt", "--namespace", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp")
    _keep(folder / "operator.log", *operator, "--tail=-1", "--prefix")
    _keep(folder / "operator-before.log", *operator, "--tail=-1", "--prefix", "--previous")
    for pod in seen.pods:
        if pod.job:
            _keep(folder / f"{pod.name}.log", "--namespace", NAMESPACE, "logs", pod.name, "--tail=-1")
    return folder


def _keep(path: Path, *arguments: str) -> None:
    done = subprocess.run(kubectl_command(*arguments), capture_output=True, timeout=60, check=False)
    path.write_bytes(done.stdout + done.stderr)
