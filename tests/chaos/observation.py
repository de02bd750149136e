"""What the cluster shows at one moment, read from the API's JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.script import Target

TERMINAL = frozenset({"completed", "failed", "cancelled", "expired"})
NAMES: Mapping[str, Target] = {
    "batchwright-operator": Target.OPERATOR,
    "batchwright-worker": Target.WORKER,
    "model-server": Target.MODEL_SERVER,
    "s3": Target.STORAGE,
}
"""Of the label app.kubernetes.io/name. Nothing else in the two namespaces is ever killed."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that may be killed."""

    name: str
    namespace: str
    target: Target
    node: str
    running: bool
    """Its container runs, and the pod is not on its way out."""
    ready: bool
    container: str
    """Its container's id; empty before it starts."""
    job: str = ""
    """Of a worker: its BatchJob."""
    stage: str = ""
    index: str = ""

    @property
    def role(self) -> tuple[str, str, str]:
        """What a replacement of a worker has in common with it."""
        return (self.job, self.stage, self.index)


@dataclass(frozen=True, slots=True)
class Job:
    """A BatchJob."""

    name: str
    uid: str
    phase: str
    done: int
    """Requests that have ended, in either way."""
    total: int
    suspended: bool
    deleting: bool
    status: Mapping[str, Any]

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL

    @property
    def progress(self) -> float:
        """Part of the requests that have ended."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it."""

    jobs: Mapping[str, Job]
    """By name."""
    pods: tuple[Pod, ...]

    def of(self, target: Target) -> tuple[Pod, ...]:
        """The pods of a kind."""
        return tuple(pod for pod in self.pods if pod.target is target)


def snapshot(batchjobs: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> Snapshot:
    """What lists of the API hold."""
    jobs = [_job(manifest) for manifest in batchjobs]
    found = (_pod(manifest) for manifest in pods)
    return Snapshot({job.name: job for job in jobs}, tuple(pod for pod in found if pod is not None))


def _job(manifest: Mapping[str, Any]) -> Job:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    counts = status.get("requestCounts") or {}
    return Job(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=status.get("phase", ""),
        done=counts.get("completed", 0) + counts.get("failed", 0),
        total=counts.get("total", 0),
        suspended=bool(manifest["spec"].get("suspend")),
        deleting="deletionTimestamp" in metadata,
        status=status,
    )


def _pod(manifest: Mapping[str, Any]) -> Pod | None:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    target = NAMES.get(labels.get("app.kubernetes.io/name", ""))
    if target is None:
        return None
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or ()), {})
    leaving = "deletionTimestamp" in metadata
    return Pod(
        name=metadata["name"],
        namespace=metadata["namespace"],
        target=target,
        node=manifest["spec"].get("nodeName", ""),
        running="running" in (container.get("state") or {}) and not leaving,
        ready=bool(container.get("ready")) and not leaving,
        container=container.get("containerID", "").rpartition("//")[2],
        job=annotations.get("batchwright.dev/batchjob-name", ""),
        stage=labels.get("batchwright.dev/stage", ""),
        index=labels.get("batch.kubernetes.io/job-completion-index", ""),
    )
