"""Reading one BatchJob and its children. Calls block: the loop makes them in a thread."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from batchwright.controller.core import child_names, stray_pods
from batchwright.controller.core.observed import JobView, Occurrence, PodView
from batchwright.controller.core.parsing import (
    Raw,
    node_is_ready,
    parse_config_map,
    parse_identity,
    parse_jobs,
    parse_occurrences,
    parse_pods,
)
from batchwright.controller.memory import Reading
from batchwright.controller.settings import Settings
from batchwright.kube.connection import RawObject

_SLOW_START = timedelta(seconds=3)
_PODS_LOOKED_AT = 3
"""Pods of a Job fail to start for the same reason: the Events of a few tell it."""


class BatchJobReader(Protocol):
    """Reads BatchJobs."""

    def get(self, namespace: str, name: str) -> RawObject:
        """One BatchJob; raises when it is gone."""


class ChildrenReader(Protocol):
    """Reads children."""

    def jobs(self, namespace: str, owner_uid: str) -> list[RawObject]:
        """The Jobs of a BatchJob."""

    def pods(self, namespace: str, owner_uid: str) -> list[RawObject]:
        """The pods of its Jobs."""

    def config_map(self, namespace: str, name: str) -> RawObject | None:
        """A ConfigMap."""

    def events_of(self, namespace: str, uid: str) -> list[RawObject]:
        """The Events about an object."""

    def node(self, name: str) -> RawObject | None:
        """A node."""

    def namespace_is_terminating(self, name: str) -> bool:
        """Whether a namespace is being deleted."""


class Gatherer:
    """Reads what the core decides from: four calls, and a few more only while something doesn't start or end."""

    def __init__(self, batchjobs: BatchJobReader, children: ChildrenReader, settings: Settings) -> None:
        self._batchjobs = batchjobs
        self._children = children
        self._settings = settings

    def read(self, namespace: str, name: str, uid: str, now: datetime) -> Reading | None:
        """A reading; None where this very BatchJob is gone, even if there is another of its name.

        Raises:
            KubernetesError: the API server didn't answer, or refused.
        """
        batchjob: Raw = self._batchjobs.get(namespace, name)
        identity = parse_identity(batchjob)
        if identity.uid != uid:
            return None
        config_map = parse_config_map(self._children.config_map(namespace, child_names.config_map_name(identity)))
        # Jobs before pods: the pods of a Job that is seen finished are then seen finished too.
        jobs = parse_jobs(self._children.jobs(namespace, uid))
        pods = parse_pods(self._children.pods(namespace, uid))
        return Reading(
            identity=identity,
            batchjob=batchjob,
            config_map=config_map,
            jobs=jobs,
            pods=pods,
            occurrences=self._occurrences(namespace, jobs, pods, now),
            nodes_ready={
                node: node_is_ready(self._children.node(node))
                for node in {pod.node for pod in stray_pods.suspects(pods, now, self._settings)}
            },
            namespace_terminating=bool(stray_pods.held(jobs, pods))
            and self._children.namespace_is_terminating(namespace),
            at=now,
        )

    def _occurrences(
        self, namespace: str, jobs: Iterable[JobView], pods: tuple[PodView, ...], now: datetime
    ) -> tuple[Occurrence, ...]:
        """Events, only about what should have started by now."""
        with_pods = {pod.job_uid for pod in pods if not pod.finished}
        waiting = [
            job.uid
            for job in jobs
            if job.end is None and not job.suspended and job.uid not in with_pods and _is_slow(job.created_at, now)
        ]
        stuck = [pod.uid for pod in pods if not pod.started and not pod.finished and _is_slow(pod.created_at, now)]
        found: list[Occurrence] = []
        for uid in [*waiting, *stuck[:_PODS_LOOKED_AT]]:
            found += parse_occurrences(self._children.events_of(namespace, uid))
        return tuple(found)


def _is_slow(created_at: datetime, now: datetime) -> bool:
    return now - created_at >= _SLOW_START
