"""Pods that nobody else ends: on nodes that are gone, of Jobs that are gone, in namespaces that are to go.

podFailurePolicy makes the Job controller wait for a pod to end before it makes another. A pod on a node that nobody
hears stays Terminating for ever, so its index would never run again (kubernetes/enhancements#6262). It is declared
Failed by disruption, as pod garbage collection does: should it live on, its writes stand under keys of its own.

`kubectl delete job --cascade=orphan` leaves pods that no Job counts. Those of the next Job would do the same work
beside them, so they are deleted.

The Job controller keeps a failed pod of an index until the next one is there. In a namespace that is being deleted none
can be made, and Kubernetes (from 1.33) deletes everything else only once the pods are gone: it would wait for ever. The
pods are let go of when their Job is deleted.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from batchwright.controller.core.observed import JobView, Observed, PodView
from batchwright.controller.core.plan_of_actions import Action, DeleteJob, DeletePod, MarkPodFailed
from batchwright.controller.settings import Settings

_LONGEST_END = timedelta(minutes=10)
"""How long after its grace period a pod is waited for. It can hurt nothing afterwards: its writes are conditional."""


def awaited(pods: Iterable[PodView], now: datetime) -> tuple[PodView, ...]:
    """Pods that may still be at work, and are to end before others take their place."""
    return tuple(
        pod for pod in pods if not pod.finished and (pod.delete_by is None or now <= pod.delete_by + _LONGEST_END)
    )


def suspects(pods: Iterable[PodView], now: datetime, settings: Settings) -> tuple[PodView, ...]:
    """Pods that should have ended by now. Only their nodes need a look."""
    return tuple(
        pod
        for pod in pods
        if pod.delete_by is not None
        and not pod.finished
        and pod.node
        and now > pod.delete_by + settings.node_loss_margin
    )


def held(jobs: Iterable[JobView], pods: Iterable[PodView]) -> tuple[PodView, ...]:
    """Pods that have ended, are deleted, and are still there, since their Job goes on. Mostly for some seconds."""
    living = {job.uid for job in jobs if job.end is None and not job.deleting}
    return tuple(pod for pod in pods if pod.finished and pod.delete_by is not None and pod.job_uid in living)


def actions(observed: Observed, now: datetime, settings: Settings) -> tuple[Action, ...]:
    """Mark those whose node is known not to be ready, delete those whose Job is gone, and the Jobs that keep them."""
    lost = (
        MarkPodFailed(
            pod.name, pod.uid, f"Batchwright: node {pod.node} is not ready, and the pod's grace period is over"
        )
        for pod in suspects(observed.pods, now, settings)
        if observed.nodes_ready.get(pod.node) is False
    )
    return (*lost, *_orphans(observed), *_keepers(observed))


def _keepers(observed: Observed) -> Iterator[DeleteJob]:
    if observed.namespace_terminating:
        uids = {pod.job_uid for pod in held(observed.jobs, observed.pods)}
        yield from (DeleteJob(job.name, job.uid) for job in observed.jobs if job.uid in uids)


def _orphans(observed: Observed) -> Iterator[DeletePod]:
    """Pods are read after the Jobs: one whose Job is not among them was left by it, or goes with it anyway."""
    jobs = {job.uid for job in observed.jobs}
    for pod in observed.pods:
        if pod.job_uid not in jobs and not pod.finished and pod.delete_by is None:
            yield DeletePod(pod.name, pod.uid)
