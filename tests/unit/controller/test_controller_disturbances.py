"""docs/disturbances.md, row by row: what Kubernetes does to a BatchJob in each phase, and what comes of it.

The document's table says in a word what happens. Each cell is tried here on the pure core, and must come to that word.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from batchwright.api.conditions import ConditionType, Phase
from batchwright.api.undone import Undone
from batchwright.controller.core import conditions, worker_config
from batchwright.controller.core.observed import Disruption, Observed, Termination
from batchwright.controller.core.plan_of_actions import (
    CreateConfigMap,
    CreateJob,
    DeleteJob,
    DeletePod,
    MarkPodFailed,
    Plan,
)
from builders import NOW, BatchJobBuilder, JobBuilder, ago, batchjob, config_map, job
from fixtures.reconciling import PLANNED, SETTINGS, plan_for, status_of

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "disturbances.md"
PHASES = ("pending", "validating", "in_progress", "finalizing", "stopping")
STAGES = {
    "pending": job("plan"),
    "validating": job("plan"),
    "in_progress": job("run", 1).with_(completions=2),
    "finalizing": job("merge", 1),
    "stopping": job("merge", 1).with_(undone=Undone.CANCELLED),
}
"""The Job that is at work in a phase. A stop first waits for the workers' end; then a closing merge is at work."""
LONG_AGO = ago(minutes=5)
"""Longer than any deadline for pods that don't start."""


def in_phase(phase: str, *jobs: JobBuilder) -> BatchJobBuilder:
    """A BatchJob in a phase with these Jobs at work, and the ConfigMap as it should be."""
    planned = batchjob().planned()
    match phase:
        case "pending":
            builder = batchjob().with_status(phase=Phase.PENDING)
        case "validating":
            builder = batchjob().with_status(phase=Phase.VALIDATING, validating_at=ago(seconds=40))
        case "in_progress":
            builder = planned.with_status(phase=Phase.IN_PROGRESS)
        case "finalizing":
            builder = planned.with_status(phase=Phase.FINALIZING, finalizing_at=ago(seconds=20))
            builder = builder.with_job(job("run", 1).complete())
        case _:
            builder = planned.cancelled()
            builder = builder.with_status(**dict(status_of(builder)))  # before the merge, it is written what it ends as
    return with_config_map(builder.with_job(*jobs))


def with_config_map(builder: BatchJobBuilder) -> BatchJobBuilder:
    """The workers' ConfigMap, equal to the spec."""
    observed = builder.with_(config_map=None).build()
    assert observed.spec is not None
    made = worker_config.actions(observed, observed.spec, SETTINGS)
    (data,) = [action.manifest["data"] for action in made if isinstance(action, CreateConfigMap)]
    return builder.with_(config_map=config_map(data))


def at_work(phase: str) -> JobBuilder:
    """The phase's Job as it is without any disturbance."""
    return STAGES[phase].pod() if phase == "pending" else STAGES[phase].running_pod(index=0)


def undisturbed(phase: str) -> BatchJobBuilder:
    return in_phase(phase, at_work(phase))


Disturb = Callable[[str], BatchJobBuilder]


def pod_ends(code: int = 137, *, reason: str = "Error", message: str = "", **pod: object) -> Disturb:
    """The only pod ends without a report."""
    ended = Termination(code, NOW, reason, None, message)
    return lambda phase: in_phase(phase, STAGES[phase].ended_pod(code=code, **{"termination": ended, **pod}))


def disrupted(reason: str, message: str) -> Disturb:
    """The only pod is ended by Kubernetes; a worker that is told to leave does so by itself."""

    def disturb(phase: str) -> BatchJobBuilder:
        disruption = Disruption(reason, message)
        if phase == "pending":
            return in_phase(phase, STAGES[phase].pod(phase="Failed", disruption=disruption, node="node-1"))
        return pod_ends(10, disruption=disruption, node="node-1")(phase)

    return disturb


def pod_waits(reason: str, message: str = "", *, event: str = "") -> Disturb:
    """The only pod has waited for long, for what its state says or an Event tells."""

    def disturb(phase: str) -> BatchJobBuilder:
        stage = STAGES[phase].waiting_pod(reason, message, created_at=LONG_AGO)
        builder = in_phase(phase, stage)
        return builder.with_event(stage.pods[0].uid, "FailedMount", event) if event else builder

    return disturb


def unscheduled(message: str) -> Disturb:
    return lambda phase: in_phase(phase, STAGES[phase].pod(unschedulable=message, created_at=LONG_AGO))


def pods_refused(message: str) -> Disturb:
    """The Job controller has not been let create a pod for long."""

    def disturb(phase: str) -> BatchJobBuilder:
        stage = STAGES[phase].with_(created_at=LONG_AGO)
        refused = in_phase(phase, stage).with_event(stage.view.uid, "FailedCreate", f"Error creating: {message}")
        occurrences = tuple(replace(one, at=LONG_AGO) for one in refused.rest["occurrences"])
        return refused.with_(occurrences=occurrences)

    return disturb


def job_refused(message: str) -> Disturb:
    """The API server has not taken the Job for long."""
    return lambda phase: in_phase(phase).refused("Job nightly-x in namespace demo", message, LONG_AGO)


def node_lost(phase: str) -> BatchJobBuilder:
    pod = {"node": "node-2", "delete_by": LONG_AGO}
    stage = STAGES[phase].pod(**pod) if phase == "pending" else STAGES[phase].running_pod(**pod)
    return in_phase(phase, stage).with_(nodes_ready={"node-2": False})


def orphaned(phase: str) -> BatchJobBuilder:
    """The Job is gone, and its pods are not."""
    return in_phase(phase).with_(pods=at_work(phase).pods)


def vanished(phase: str) -> BatchJobBuilder:
    """No Job at all is left, the finished ones of earlier stages neither."""
    return replace(in_phase(phase), jobs=())


def pod_deleted(phase: str) -> BatchJobBuilder:
    leaving = replace(at_work(phase).pods[0], delete_by=NOW)
    return in_phase(phase, replace(STAGES[phase], pods=(leaving,)))


def config_map_deleted(phase: str) -> BatchJobBuilder:
    return undisturbed(phase).with_(config_map=None)


def deleting(phase: str) -> BatchJobBuilder:
    builder = undisturbed(phase)
    return replace(builder, identity=replace(builder.identity, deleting=True))


def kubelet_restarted(phase: str) -> BatchJobBuilder:
    """For a moment nothing of the node is known to be ready."""
    pods = tuple(replace(pod, ready=False) for pod in at_work(phase).pods)
    return in_phase(phase, replace(STAGES[phase], pods=pods)).with_(nodes_ready={"node-1": False})


def stale(phase: str) -> BatchJobBuilder:
    """What was read last is from before the Job was created."""
    return in_phase(phase)


MOUNT = 'MountVolume.SetUp failed for volume "{}" : {}'
SECRET = MOUNT.format("batchwright-storage-input", 'secret "s3-credentials" not found')
CA = {"url": "https://models", "caBundleConfigMapRef": {"name": "corporate"}}


def ca_missing(phase: str) -> BatchJobBuilder:
    detail = MOUNT.format("batchwright-ca-server", 'configmap "corporate" not found')
    return with_config_map(pod_waits("ContainerCreating", event=detail)(phase).with_spec(server=CA))


def status_unwritten(phase: str) -> BatchJobBuilder:
    """The operator created the phase's Job, and was killed before it could write anything about it."""
    builder = in_phase(phase, at_work(phase))
    match phase:
        case "pending" | "validating":
            return builder.with_status(phase=None, validating_at=None)
        case "in_progress":
            before = job("plan").ended_pod(PLANNED).complete()
            unplanned = {"phase": Phase.VALIDATING, "fingerprint": None, "run": None, "in_progress_at": None}
            return builder.with_job(before).with_status(**unplanned)
        case "finalizing":
            return builder.with_status(phase=Phase.IN_PROGRESS, finalizing_at=None)
        case _:
            return builder


@dataclass(frozen=True)
class Row:
    """A disturbance, and what the message must name where it is told."""

    disturb: Disturb
    words: tuple[str, ...] = ()
    there: bool = False
    """The phase's Job is there, although it was not read."""


ROWS: dict[str, Row] = {
    "Pod evicted": Row(
        disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), ("on node node-1 was evicted", "Eviction API")
    ),
    "Pod evicted for want of memory or disk": Row(
        disrupted("TerminationByKubelet", "The node was low on resource: memory."),
        ("was ended by its node", "low on resource: memory"),
    ),
    "Pod preempted": Row(
        disrupted("PreemptionByScheduler", "default-scheduler: preempting"), ("made room for a pod of higher priority",)
    ),
    "Node lost": Row(node_lost),
    "Kubelet restarted": Row(kubelet_restarted),
    "Image can't be pulled": Row(
        pod_waits("ImagePullBackOff", 'Back-off pulling image "nowhere/worker:1"'),
        ("nowhere/worker:1", "BATCHWRIGHT_WORKER_IMAGE", "spec.worker.imagePullSecrets", "goes on by itself"),
    ),
    "No node fits": Row(
        unscheduled("0/3 nodes are available: 3 Insufficient cpu."),
        ("Insufficient cpu", "spec.worker.resources", "goes on by itself"),
    ),
    "Out of memory": Row(
        pod_ends(reason="OOMKilled", memory_limit="512Mi"),
        ("OOMKilled", "limit of 512Mi", "spec.worker.resources.limits.memory, to 1Gi"),
    ),
    "Image without the worker's program": Row(
        pod_ends(
            128,
            reason="StartError",
            message='exec: "batchwright-worker": executable file not found in $PATH',
            created_at=LONG_AGO,
        ),
        ("can't start", "executable file not found", "BATCHWRIGHT_WORKER_IMAGE"),
    ),
    "Image for another processor": Row(
        pod_ends(1, message="exec /usr/bin/batchwright-worker: exec format error", created_at=LONG_AGO),
        ("can't start", "exec format error", "another kind of processor", "BATCHWRIGHT_WORKER_IMAGE"),
    ),
    "Process killed": Row(pod_ends(137), ("exit code 137", "killed", "kubectl -n demo logs")),
    "Job deleted by hand": Row(in_phase),
    "Job deleted without its pods": Row(orphaned),
    "Job finished and vanished unseen": Row(vanished),
    "Pod deleted by hand": Row(pod_deleted),
    "Operator killed at any step": Row(status_unwritten),
    "API server away": Row(undisturbed),
    "Conflict (409)": Row(undisturbed),
    "Stale reading": Row(stale, there=True),
    "Job refused by a quota": Row(
        job_refused("exceeded quota: small"), ("Job nightly-x in namespace demo can't be created", "exceeded quota")
    ),
    "Job refused by a policy or webhook": Row(
        job_refused("pods need the label team"), ("can't be created", "pods need the label team")
    ),
    "Pods refused by a quota": Row(
        pods_refused('pods "x" is forbidden: exceeded quota: small'), ("in namespace demo", "exceeded quota: small")
    ),
    "Pods refused by Pod Security": Row(
        pods_refused('pods "x" is forbidden: violates PodSecurity "restricted:latest": volume type "nfs"'),
        ("in namespace demo", 'violates PodSecurity "restricted:latest"', "nfs"),
    ),
    "Service account missing": Row(
        pods_refused('pods "x" is forbidden: error looking up service account demo/a: serviceaccount "a" not found'),
        ("spec.worker.serviceAccountName", "kubectl -n demo create serviceaccount a"),
    ),
    "Secret missing": Row(
        pod_waits("ContainerCreating", event=SECRET),
        ("Secret 's3-credentials' is missing in namespace 'demo'", "spec.storage.credentialsSecretRef", "kubectl"),
    ),
    "Secret rotated": Row(undisturbed),
    "Certificates' ConfigMap missing": Row(ca_missing, ("ConfigMap 'corporate' is missing in namespace 'demo'",)),
    "Workers' ConfigMap deleted": Row(config_map_deleted),
    "Volume claim missing": Row(
        unscheduled('0/1 nodes are available: persistentvolumeclaim "data" not found.'),
        ("PersistentVolumeClaim 'data' is missing in namespace 'demo'", "spec.worker.volumes"),
    ),
    "BatchJob deleted": Row(deleting),
    "Namespace deleted": Row(deleting),
}
NEVER = {("pending", what) for what in ("Out of memory", "Process killed")} | {("pending", "Secret rotated")}
"""What needs a pod that has started."""


def outcome(observed_phase: str, row: Row) -> str:
    """What comes of a disturbance, in the words of the document."""
    builder = row.disturb(observed_phase)
    plan = plan_for(builder)
    if builder.identity.deleting:
        assert plan == Plan()
        return "goes with it"
    status = plan.status or builder.status
    assert status.phase is not Phase.FAILED, status.message
    stalled = conditions.find(status, ConditionType.STALLED)
    if stalled is not None and stalled.status == "True":
        assert_told(stalled.message, row)
        return f"Stalled: {stalled.reason}"
    done = what_is_done(observed_phase, row, plan)
    if done == "goes on" and row.words:
        assert_told(status.message or "", row)
        return "told"
    return done


def what_is_done(phase: str, row: Row, plan: Plan) -> str:
    """What the plan's actions come to."""
    kinds = {type(action) for action in plan.actions}
    if row.there:
        # The API server says that the name is taken, and the owner's UID that it is ours.
        (create,) = (action for action in plan.actions if isinstance(action, CreateJob))
        assert create.manifest["metadata"]["name"] == STAGES[phase].view.name
        return "goes on"
    if kinds & {CreateJob, CreateConfigMap}:
        return "made anew"
    assert DeleteJob not in kinds
    return "given up" if kinds & {MarkPodFailed, DeletePod} else "goes on"


def assert_told(message: str, row: Row) -> None:
    for word in row.words:
        assert word in message


def tables() -> list[list[list[str]]]:
    """The tables of the document, each a list of rows without its head."""
    found: list[list[list[str]]] = []
    for block in re.findall(r"(?:^\|.*\n)+", DOCUMENT.read_text(), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        found.append(rows[2:])
    return found


def overview() -> dict[str, list[str]]:
    """The row of each disturbance in the table of phases."""
    return {name: cells for name, *cells in tables()[1]}


CELLS = [(what, phase) for what in ROWS for phase in PHASES]


@pytest.mark.parametrize(("what", "phase"), CELLS, ids=[f"{what}, {phase}" for what, phase in CELLS])
def test_a_disturbance_comes_to_what_the_document_says(what: str, phase: str) -> None:
    expected = overview()[what][PHASES.index(phase)]
    assert ("–" if (phase, what) in NEVER else outcome(phase, ROWS[what])) == expected


def test_the_document_has_these_rows_and_explains_each() -> None:
    words, phases, explained = tables()
    assert [row[0] for row in phases] == list(ROWS)
    assert [row[0] for row in explained] == list(ROWS)
    used = {cell.split(":")[0] for row in phases for cell in row[1:6]}
    assert used == {row[0].strip("*") for row in words}


def test_what_is_marked_as_tried_on_a_real_cluster_has_a_test_there() -> None:
    sources = {path.name: path.read_text() for path in (ROOT / "tests" / "e2e").glob("test_*.py")}
    marked = [row[6] for row in tables()[1] if row[6]]
    assert len(marked) >= 20
    for mark in marked:
        for file, function in re.findall(r"`([a-z_]+)::([a-z_]+)`", mark):
            assert f"def {function}(" in sources[f"test_{file}.py"], mark
        assert re.search(r"`[a-z_]+::[a-z_]+`", mark), mark


@pytest.mark.parametrize("phase", PHASES)
def test_pods_that_a_deleted_job_left_behind_are_deleted(phase: str) -> None:
    deletions = [action for action in plan_for(orphaned(phase)).actions if isinstance(action, DeletePod)]
    assert [action.uid for action in deletions] == [pod.uid for pod in at_work(phase).pods]
    leaving = tuple(replace(pod, delete_by=NOW) for pod in at_work(phase).pods)
    going = plan_for(in_phase(phase).with_(pods=leaving))
    assert not any(isinstance(action, DeletePod) for action in going.actions)


@pytest.mark.parametrize("phase", PHASES)
def test_a_namespace_that_is_to_go_is_not_kept_by_pods_that_no_other_can_follow(phase: str) -> None:
    held = replace(at_work(phase).pods[0], phase="Failed", delete_by=NOW)
    waiting = in_phase(phase, replace(STAGES[phase], pods=(held,)))
    assert not _deletes_a_job(waiting), "the Job controller makes another pod first"
    assert _deletes_a_job(waiting.with_(namespace_terminating=True))
    running = replace(held, phase="Running")
    leaving = in_phase(phase, replace(STAGES[phase], pods=(running,)))
    assert not _deletes_a_job(leaving.with_(namespace_terminating=True)), "it has its grace period"


MENDED = {"worker": {"resources": {"limits": {"memory": "1Gi"}}}}


@pytest.mark.parametrize("phase", PHASES[1:4])
def test_a_job_whose_pods_only_fail_is_made_anew_once_the_spec_was_mended(phase: str) -> None:
    stage = _as_made(phase)
    failing = in_phase(phase, replace(stage, pods=STAGES[phase].ended_pod(code=137, reason="OOMKilled").pods))
    assert not _deletes_a_job(failing)
    assert _deletes_a_job(failing.with_spec(**MENDED))
    evicted = STAGES[phase].ended_pod(code=10, disruption=Disruption("EvictionByEvictionAPI"))
    assert not _deletes_a_job(in_phase(phase, replace(stage, pods=evicted.pods)).with_spec(**MENDED))
    working = in_phase(phase, replace(stage, pods=at_work(phase).pods)).with_spec(**MENDED)
    assert not _deletes_a_job(working), "what works is left alone"


def _as_made(phase: str) -> JobBuilder:
    """The phase's Job with the digest of what it was made from."""
    builder = in_phase(phase)
    (create,) = (action for action in plan_for(builder).actions if isinstance(action, CreateJob))
    annotations = create.manifest["metadata"]["annotations"]
    completions = create.manifest["spec"].get("completions", 1)
    return STAGES[phase].with_(template=annotations["batchwright.dev/template"], completions=completions)


def _deletes_a_job(builder: BatchJobBuilder) -> bool:
    return any(isinstance(action, DeleteJob) for action in plan_for(builder).actions)


def test_an_old_refusal_is_no_reason_any_more_once_there_were_pods() -> None:
    stage = job("run", 1).ended_pod(code=137, created_at=ago(minutes=1))
    builder = in_phase("in_progress", stage).with_event(stage.view.uid, "FailedCreate", "exceeded quota")
    old = tuple(replace(one, at=LONG_AGO) for one in builder.rest["occurrences"])
    observed: Observed = builder.with_(occurrences=old).build()
    status = plan_for(builder.with_(occurrences=old)).status
    assert observed.occurrences
    assert status is not None
    assert "quota" not in (status.message or "")


def test_what_failed_a_job_is_told_and_not_who_was_evicted_besides() -> None:
    stage = job("plan").ended_pod(code=1, reason="Error")
    stage = stage.ended_pod(code=10, disruption=Disruption("EvictionByEvictionAPI")).failed()
    status = plan_for(in_phase("validating", stage)).status
    assert status is not None
    assert "exit code 1" in (status.message or "")
