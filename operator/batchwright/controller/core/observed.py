"""What the controller sees of one BatchJob and its children at one moment. Frozen: the pure core decides from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.reports import MergeProgress, Progress, Report
from batchwright.api.status import BatchJobStatus
from batchwright.api.undone import Undone


class Stage(StrEnum):
    """The three stages of a BatchJob, each a Job."""

    PLAN = "plan"
    RUN = "run"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which BatchJob this is."""

    namespace: str
    name: str
    uid: str
    generation: int
    created_at: datetime
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ConfigMapView:
    """The ConfigMap that tells the workers what to do."""

    name: str
    uid: str
    data: Mapping[str, str]
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a Job ended: its terminal condition."""

    succeeded: bool
    at: datetime
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job of a stage. `run` is 0 for the plan; `attempt` counts from 1."""

    name: str
    uid: str
    stage: Stage
    run: int
    attempt: int
    created_at: datetime
    completions: int = 1
    active: int = 0
    ready: int = 0
    failed: int = 0
    suspended: bool = False
    suspended_by_us: bool = False
    queue_name: str = ""
    template: str = ""
    """Digest of what it was made from."""
    undone: Undone | None = None
    """Of a merge that closes a stopped BatchJob: the code of the requests that it ends without."""
    deleting: bool = False
    end: JobEnd | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container doesn't run."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Termination:
    """How a worker's container ended, and what it said."""

    exit_code: int
    at: datetime
    reason: str = ""
    report: Report | None = None
    message: str = ""
    """What was said instead of a report: the runtime's own words, or the end of the log."""


@dataclass(frozen=True, slots=True)
class Disruption:
    """Why a pod as a whole ended, or is being ended: evicted, preempted, rejected by its node."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of a stage's Job."""

    name: str
    uid: str
    job_uid: str
    stage: Stage
    run: int
    phase: str
    created_at: datetime
    index: int | None = None
    node: str = ""
    address: str = ""
    started_at: datetime | None = None
    """When its container started, whether it still runs or not."""
    ready: bool = False
    waiting: Waiting | None = None
    unschedulable: str = ""
    termination: Termination | None = None
    delete_by: datetime | None = None
    """The end of its grace period, where it is being deleted."""
    disruption: Disruption | None = None
    memory_limit: str = ""
    """The limit of its container, as Kubernetes writes it."""

    @property
    def started(self) -> bool:
        """Whether its container runs, or ran."""
        return self.started_at is not None

    @property
    def finished(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An Event of the kubelet or the Job controller about a child that doesn't start. One that comes again and again is
    kept as one, which was first seen at `first_at`."""

    uid: str
    reason: str
    message: str
    at: datetime
    first_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the API server doesn't let us do to a child, since when it is tried, and what the API said last."""

    child: str
    message: str
    since: datetime
    verb: str = "created"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a running worker said when it was last asked."""

    report: Progress
    at: datetime


@dataclass(frozen=True, slots=True)
class Sample:
    """Requests done at a moment, for the rate."""

    at: datetime
    done: int


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that `reconcile` decides from, beside the time and the settings.

    `spec` is None where it can't be read; `spec_error` then names the field. `progress` holds the latest report of each
    worker index of each run, live or from its pod's end.
    """

    identity: Identity
    spec: BatchJobSpec | None
    spec_error: str = ""
    status: BatchJobStatus = field(default_factory=BatchJobStatus)
    config_map: ConfigMapView | None = None
    jobs: tuple[JobView, ...] = ()
    pods: tuple[PodView, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
    nodes_ready: Mapping[str, bool] = field(default_factory=dict)
    namespace_terminating: bool = False
    progress: tuple[Progress, ...] = ()
    heard: tuple[Heard, ...] = ()
    """What the workers that answered said last, one for each index of each run."""
    merging: MergeProgress | None = None
    """What the merge said last."""
    samples: tuple[Sample, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    last_status_write: datetime | None = None
    cluster: str = ""

    def job(self, stage: Stage, run: int) -> JobView | None:
        """The latest attempt of a stage."""
        jobs = [job for job in self.jobs if job.stage is stage and job.run == run]
        return max(jobs, key=lambda job: job.attempt, default=None)

    def with_facts(self, facts: Mapping[str, object]) -> "Observed":
        """The same, as it will be once these fields of the status are written."""
        return replace(self, status=self.status.model_copy(update=dict(facts)))

    def pods_of(self, job: JobView) -> tuple[PodView, ...]:
        """The pods of a Job, oldest first."""
        pods = (pod for pod in self.pods if pod.job_uid == job.uid)
        return tuple(sorted(pods, key=lambda pod: (pod.created_at, pod.name)))
