"""What the loop of one BatchJob keeps between two passes. Losing it, as a restart does, costs nothing but a look."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from batchwright.api.reports import InterruptedReport, MergeProgress, Progress
from batchwright.controller.core import counts
from batchwright.controller.core import progress as rates
from batchwright.controller.core.observed import (
    ConfigMapView,
    Heard,
    Identity,
    JobView,
    Observed,
    Occurrence,
    PodView,
    Refusal,
    Sample,
)
from batchwright.controller.core.parsing import Raw, parse_spec, parse_status


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the API at one moment."""

    identity: Identity
    batchjob: Raw
    config_map: ConfigMapView | None
    jobs: tuple[JobView, ...]
    pods: tuple[PodView, ...]
    occurrences: tuple[Occurrence, ...]
    nodes_ready: Mapping[str, bool]
    at: datetime
    namespace_terminating: bool = False

    @property
    def version(self) -> str:
        """Which version of the BatchJob was read."""
        return str(self.batchjob["metadata"].get("resourceVersion", ""))


@dataclass(slots=True)
class Memory:
    """State of one loop. `reading` is None where the next pass must read anew."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    reading: Reading | None = None
    progress: tuple[Progress, ...] = ()
    heard: dict[tuple[int, int], Heard] = field(default_factory=dict)
    merging: MergeProgress | None = None
    samples: tuple[Sample, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    last_status_write: datetime | None = None
    polled_at: dict[str, datetime] = field(default_factory=dict)
    errors: int = 0
    generation: int | None = None
    """The newest generation of the spec that was read."""

    def remember(self, reading: Reading) -> None:
        """Take a reading, and the progress that its finished pods reported."""
        self.reading = reading
        self.generation = reading.identity.generation
        self.add_progress(reported_progress(reading.pods))
        living = {pod.uid for pod in reading.pods}
        self.polled_at = {uid: at for uid, at in self.polled_at.items() if uid in living}

    def add_progress(self, reports: tuple[Progress, ...]) -> None:
        """Take reports, the newest last."""
        self.progress = counts.latest_of_each_worker((*self.progress, *reports))

    def hear(self, reports: tuple[Progress, ...], now: datetime) -> None:
        """Take what running workers answered."""
        self.add_progress(reports)
        self.heard |= {(report.run, report.index): Heard(report, now) for report in reports}

    def take_sample(self, now: datetime) -> None:
        """Remember how many requests are done now, for the rate. Before every worker was heard, the sum is too small,
        and what was published is nearer to the truth."""
        assert self.reading is not None
        done = counts.done_by_now(parse_status(self.reading.batchjob), self.progress)
        self.samples = rates.extend(self.samples, now, done)

    def observed(self, cluster: str) -> Observed:
        """Everything for the core to decide from.

        Raises:
            pydantic.ValidationError: the status is none of ours.
        """
        assert self.reading is not None
        spec, spec_error = parse_spec(self.reading.batchjob)
        return Observed(
            identity=self.reading.identity,
            spec=spec,
            spec_error=spec_error,
            status=parse_status(self.reading.batchjob),
            config_map=self.reading.config_map,
            jobs=self.reading.jobs,
            pods=self.reading.pods,
            occurrences=self.reading.occurrences,
            nodes_ready=self.reading.nodes_ready,
            namespace_terminating=self.reading.namespace_terminating,
            progress=self.progress,
            heard=tuple(self.heard.values()),
            merging=self.merging,
            samples=self.samples,
            refusals=self.refusals,
            last_status_write=self.last_status_write,
            cluster=cluster,
        )


def reported_progress(pods: tuple[PodView, ...]) -> tuple[Progress, ...]:
    """The progress in the pods' last words."""
    found = []
    for pod in sorted(pods, key=lambda pod: pod.created_at):
        match pod.termination.report if pod.termination else None:
            case Progress() as report:
                found.append(report)
            case InterruptedReport(progress=Progress() as report):
                found.append(report)
            case _:
                pass
    return tuple(found)
