"""Fluent builders of what the controller sees: `batchjob().planned(shards=4).with_job(job("run", 1).complete())`.

Every builder is frozen: each step gives a new one, so a table may share its beginnings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.reports import Progress, Report
from batchwright.api.status import BatchJobStatus, RequestCounts, ShardCounts
from batchwright.controller.core import child_names
from batchwright.controller.core.observed import (
    ConfigMapView,
    Heard,
    Identity,
    JobEnd,
    JobView,
    Observed,
    Occurrence,
    PodView,
    Refusal,
    Sample,
    Stage,
    Termination,
    Waiting,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
"""The moment at which tests look."""
IDENTITY = Identity("demo", "nightly", "11111111-2222-3333-4444-555555555555", 1, NOW - timedelta(minutes=1))


def ago(**units: float) -> datetime:
    """A moment before NOW."""
    return NOW - timedelta(**units)


def spec_of(**changes: Any) -> dict[str, Any]:
    """A valid spec as JSON, with fields replaced."""
    return {
        "input": {"uri": "s3://batches/in.jsonl"},
        "output": {"uri": "s3://batches/out/"},
        "server": {"url": "http://model-server:8000"},
        "storage": {"endpointURL": "http://s3:7070", "credentialsSecretRef": {"name": "s3-credentials"}},
    } | changes


@dataclass(frozen=True)
class JobBuilder:
    """A Job of a stage and its pods."""

    view: JobView
    pods: tuple[PodView, ...] = ()

    def with_(self, **changes: Any) -> "JobBuilder":
        """The same with other fields."""
        return replace(self, view=replace(self.view, **changes))

    def complete(self) -> "JobBuilder":
        """It has succeeded."""
        return self.with_(end=JobEnd(True, NOW))

    def failed(self, reason: str = "BackoffLimitExceeded", message: str = "") -> "JobBuilder":
        """It has failed."""
        return self.with_(end=JobEnd(False, NOW, reason, message))

    def pod(self, **fields: Any) -> "JobBuilder":
        """One more pod, waiting to start unless fields say otherwise."""
        number = len(self.pods)
        defaults: dict[str, Any] = {
            "name": f"{self.view.name}-{number}",
            "uid": f"{self.view.uid}-pod-{number}",
            "job_uid": self.view.uid,
            "stage": self.view.stage,
            "run": self.view.run,
            "phase": "Pending",
            "created_at": self.view.created_at + timedelta(seconds=number),
        }
        return replace(self, pods=(*self.pods, PodView(**(defaults | fields))))

    def running_pod(self, **fields: Any) -> "JobBuilder":
        """One more pod that runs and is ready."""
        return self.pod(**{"phase": "Running", "started_at": ago(seconds=20), "ready": True, "node": "node-1"} | fields)

    def ended_pod(
        self, report: Report | None = None, *, code: int = 0, reason: str = "", **fields: Any
    ) -> "JobBuilder":
        """One more pod that ended."""
        termination = Termination(code, NOW, reason, report)
        phase = "Failed" if code else "Succeeded"
        return self.pod(**{"phase": phase, "started_at": ago(seconds=20), "termination": termination} | fields)

    def waiting_pod(self, reason: str, message: str = "", **fields: Any) -> "JobBuilder":
        """One more pod whose container doesn't start."""
        return self.pod(waiting=Waiting(reason, message), **fields)


def job(stage: str, run: int = 0, attempt: int = 1, *, identity: Identity = IDENTITY) -> JobBuilder:
    """A Job that was created half a minute ago and has no pods yet."""
    name = child_names.job_name(identity, Stage(stage), run, attempt)
    return JobBuilder(JobView(name, f"uid-{stage}-{run}-{attempt}", Stage(stage), run, attempt, ago(seconds=30)))


@dataclass(frozen=True)
class BatchJobBuilder:
    """A BatchJob with its children."""

    spec: Mapping[str, Any] = field(default_factory=spec_of)
    identity: Identity = IDENTITY
    status: BatchJobStatus = field(default_factory=BatchJobStatus)
    rest: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[JobBuilder, ...] = ()

    def named(self, name: str, uid: str) -> "BatchJobBuilder":
        """Of another name and UID."""
        return replace(self, identity=replace(self.identity, name=name, uid=uid))

    def with_spec(self, **changes: Any) -> "BatchJobBuilder":
        """Fields of the spec as JSON."""
        return replace(self, spec={**self.spec, **changes})

    def suspended(self) -> "BatchJobBuilder":
        """spec.suspend is true."""
        return self.with_spec(suspend=True)

    def cancelled(self) -> "BatchJobBuilder":
        """spec.cancel is true."""
        return self.with_spec(cancel=True)

    def with_status(self, **changes: Any) -> "BatchJobBuilder":
        """Fields of the status."""
        return replace(self, status=self.status.model_copy(update=changes))

    def planned(self, *, lines: int = 4000, shards: int = 4, run: int = 1) -> "BatchJobBuilder":
        """The plan is done."""
        return self.with_status(
            fingerprint="f00d",
            run=run,
            request_counts=RequestCounts(total=lines),
            shards=ShardCounts(total=shards),
            in_progress_at=ago(seconds=50),
            validating_at=ago(seconds=55),
        )

    def with_job(self, *builders: JobBuilder) -> "BatchJobBuilder":
        """Jobs with their pods."""
        return replace(self, jobs=(*self.jobs, *builders))

    def with_progress(self, *reports: Progress, at: datetime = NOW) -> "BatchJobBuilder":
        """What workers answered when they were asked."""
        heard = tuple(Heard(report, at) for report in reports)
        return replace(self, rest={**self.rest, "progress": reports, "heard": heard})

    def with_samples(self, *samples: tuple[datetime, int]) -> "BatchJobBuilder":
        """Requests done at moments."""
        return replace(self, rest={**self.rest, "samples": tuple(Sample(at, done) for at, done in samples)})

    def with_event(self, uid: str, reason: str, message: str) -> "BatchJobBuilder":
        """One Event about a child."""
        known = self.rest.get("occurrences", ())
        return replace(self, rest={**self.rest, "occurrences": (*known, Occurrence(uid, reason, message, NOW))})

    def refused(self, child: str, message: str, since: datetime) -> "BatchJobBuilder":
        """A child that the API server didn't take."""
        return replace(self, rest={**self.rest, "refusals": (Refusal(child, message, since),)})

    def with_(self, **fields: Any) -> "BatchJobBuilder":
        """Other fields of Observed."""
        return replace(self, rest={**self.rest, **fields})

    def build(self) -> Observed:
        """What the controller sees."""
        fields: dict[str, Any] = {
            "identity": self.identity,
            "spec": BatchJobSpec.model_validate(self.spec),
            "status": self.status,
            "jobs": tuple(builder.view for builder in self.jobs),
            "pods": tuple(pod for builder in self.jobs for pod in builder.pods),
            "cluster": "c1",
        }
        return Observed(**(fields | dict(self.rest)))


def batchjob() -> BatchJobBuilder:
    """A BatchJob that has just been created."""
    return BatchJobBuilder()


def config_map(data: Mapping[str, str] | None = None) -> ConfigMapView:
    """The workers' ConfigMap."""
    return ConfigMapView(child_names.config_map_name(IDENTITY), "uid-config", data or {})
