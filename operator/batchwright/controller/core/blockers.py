"""Why the work of a stage does not start or go on: what a person must do, and since when it stands still.

Pods that never start count to no backoff limit, so nothing but a look at them tells. The cluster says it in three
places: the answer to the creation of the Job, the Job controller's Events about pods that it can't create, and the
pods' own state with the kubelet's Events.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from batchwright.api.conditions import Reason
from batchwright.controller.core import reports, volumes
from batchwright.controller.core.observed import JobView, Observed, Occurrence, PodView
from batchwright.controller.core.volumes import Reference
from batchwright.controller.settings import Settings

GOES_ON = "The BatchJob then goes on by itself."
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_CONTAINER = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_PROMPT = frozenset(
    {Reason.SECRET_MISSING, Reason.CONFIG_MAP_MISSING, Reason.SERVICE_ACCOUNT_MISSING, Reason.JOB_REFUSED}
)
"""Known for sure the moment they are seen; the others may be a slow start."""

_SERVER_REMEDIES = {
    Reason.SERVER_UNAUTHORIZED: "Put a key that the server takes into the Secret of spec.server.apiKeySecretRef.",
    Reason.MODEL_NOT_FOUND: "Have the server serve the model again.",
}


@dataclass(frozen=True, slots=True)
class ServerState:
    """Whether the model server answers, as the workers see it."""

    available: bool
    message: str = ""
    reason: Reason = Reason.SERVER_AWAY
    """Why it is not available."""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a stage from starting, or from going on."""

    reason: Reason
    message: str
    since: datetime

    def overdue_at(self, settings: Settings) -> datetime:
        """When it is no longer a slow start: the BatchJob is Stalled from then on."""
        if self.reason is Reason.INVALID_SPEC:
            return self.since
        return self.since + (settings.missing_deadline if self.reason in _PROMPT else settings.start_deadline)


def server_refuses(server: ServerState | None) -> Blocker | None:
    """What a person must do about a server that answers, but not to us; None while time alone may mend it."""
    if server is None or server.available or server.since is None or server.reason not in _SERVER_REMEDIES:
        return None
    text = f"{server.message.rstrip('.')}. {_SERVER_REMEDIES[server.reason]} {GOES_ON}"
    return Blocker(server.reason, text, server.since)


def refused(observed: Observed) -> Blocker | None:
    """What the API server doesn't let us do to a child."""
    for refusal in observed.refusals:
        text = f"{refusal.child} can't be {refusal.verb}: {refusal.message.rstrip('.')}. Mend what the message names."
        return Blocker(Reason.JOB_REFUSED, f"{text} {GOES_ON}", refusal.since)
    return None


def held(job: JobView | None) -> str:
    """What a person reads about a Job that a queue, or somebody else, has suspended; empty where nobody has."""
    if job is None or not job.suspended or job.suspended_by_us:
        return ""
    queue = f" in queue {job.queue_name}" if job.queue_name else ""
    return f"The {job.stage} Job waits{queue}: it is suspended, and not by Batchwright."


def not_starting(observed: Observed, job: JobView) -> Blocker | None:
    """Why no pod of a Job has started; None once one has, or while there is nothing to say yet."""
    if job.end is not None or job.suspended or job.deleting:
        return None
    pods = [pod for pod in observed.pods_of(job) if not pod.finished and pod.delete_by is None]
    if any(pod.started for pod in pods):
        return None
    if not pods:
        return _no_pods(observed, job)
    for pod in pods:
        blocker = _pod(observed, pod)
        if blocker is not None:
            return blocker
    return _cannot_start(observed, job)


def gets_nowhere(observed: Observed, job: JobView) -> bool:
    """Whether a Job that goes on has only pods that failed by themselves, and none that runs: another spec may help."""
    if job.end is not None or job.suspended or job.deleting:
        return False
    pods = observed.pods_of(job)
    if any(pod.started and not pod.finished for pod in pods):
        return False
    last = reports.last_failure(observed, job, Reason.UNEXPECTED)
    return last is not None and not last.disruption


def _cannot_start(observed: Observed, job: JobView) -> Blocker | None:
    """The image can't be run: each new pod ends as the one before it."""
    ended = [pod for pod in observed.pods_of(job) if pod.finished]
    if not ended or not reports.cannot_start(ended[-1]):
        return None
    failure = reports.last_failure(observed, job, Reason.PODS_NOT_STARTING)
    first = next(pod for pod in ended if reports.cannot_start(pod))
    text = f"{failure.message}. {GOES_ON}" if failure is not None else GOES_ON
    return Blocker(Reason.PODS_NOT_STARTING, text, first.created_at)


def _no_pods(observed: Observed, job: JobView) -> Blocker | None:
    newest = max((pod.created_at for pod in observed.pods_of(job)), default=job.created_at)
    # What kept earlier pods from being made is over: there are pods since.
    refusals = [one for one in _of(observed.occurrences, job.uid, "FailedCreate") if one.at >= newest]
    if not refusals:
        return _cannot_start(observed, job)
    last = refusals[-1]
    since = max(newest, min(one.first_at or one.at for one in refusals))
    account = re.search(r'serviceaccount "([^"]+)" not found', last.message)
    if account is not None:
        where = f"in namespace {observed.identity.namespace!r}"
        return Blocker(
            Reason.SERVICE_ACCOUNT_MISSING,
            f"service account {account[1]!r} is missing {where} (spec.worker.serviceAccountName): create it with"
            f" `kubectl -n {observed.identity.namespace} create serviceaccount {account[1]}`. {GOES_ON}",
            since,
        )
    return Blocker(
        Reason.JOB_REFUSED,
        f"pods of Job {job.name!r} in namespace {observed.identity.namespace} can't be created:"
        f" {last.message.removeprefix('Error creating: ').rstrip('.')}. Mend what the message names. {GOES_ON}",
        since,
    )


def _pod(observed: Observed, pod: PodView) -> Blocker | None:
    if pod.unschedulable:
        return Blocker(Reason.PODS_NOT_STARTING, _unschedulable(observed, pod), pod.created_at)
    waiting = pod.waiting
    if waiting is not None and waiting.reason in _IMAGE:
        own = observed.spec is not None and observed.spec.worker is not None and observed.spec.worker.image
        field = "spec.worker.image" if own else "the operator's setting BATCHWRIGHT_WORKER_IMAGE"
        detail = f": {waiting.message.rstrip('.')}" if waiting.message else ""
        text = (
            f"the image of pod {pod.name} can't be pulled: {waiting.reason}{detail}. Correct {field}, or name the"
            f" registry's Secret in spec.worker.imagePullSecrets. {GOES_ON}"
        )
        return Blocker(Reason.PODS_NOT_STARTING, text, pod.created_at)
    if waiting is not None and waiting.reason in _CONTAINER:
        return _container(observed, pod, f"{waiting.reason}: {waiting.message}")
    return _mount(observed, pod)


def _unschedulable(observed: Observed, pod: PodView) -> str:
    """What the scheduler says, and what may be done about it."""
    namespace = observed.identity.namespace
    claim = re.search(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)', pod.unschedulable)
    if claim is not None:
        return (
            f"PersistentVolumeClaim {claim[1]!r} is missing in namespace {namespace!r} (spec.worker.volumes): create"
            f" it, or correct the reference. {GOES_ON}"
        )
    if "PersistentVolumeClaim" in pod.unschedulable:
        remedy = f"See `kubectl -n {namespace} describe pvc` for what its volume waits for."
    else:
        remedy = (
            "Free or add a node that fits, or change spec.worker.resources, nodeSelector, tolerations, affinity or"
            " priorityClassName."
        )
    return f"pod {pod.name} has no node: {pod.unschedulable.rstrip('.')}. {remedy} {GOES_ON}"


def _container(observed: Observed, pod: PodView, message: str) -> Blocker:
    """A container that can't be made, mostly for a missing Secret in `spec.worker.env`."""
    missing = re.search(r'(secret|configmap) "([^"]+)" not found', message, re.IGNORECASE)
    key = re.search(r"couldn't find key (\S+) in (Secret|ConfigMap) (\S+)", message)
    namespace = observed.identity.namespace
    if missing is not None or key is not None:
        kind = (missing[1] if missing else key[2] if key else "").lower()
        reason = Reason.SECRET_MISSING if kind == "secret" else Reason.CONFIG_MAP_MISSING
        text = f"{message}, in namespace {namespace!r} (spec.worker.env): create what is missing. {GOES_ON}"
        return Blocker(reason, text, pod.created_at)
    text = f"pod {pod.name} can't start: {message.rstrip('.')}. Mend what the message names. {GOES_ON}"
    return Blocker(Reason.PODS_NOT_STARTING, text, pod.created_at)


def _mount(observed: Observed, pod: PodView) -> Blocker | None:
    """A volume that the kubelet can't mount, by its Events."""
    known = {reference.volume: reference for reference in volumes.references(observed.spec)} if observed.spec else {}
    other: Blocker | None = None
    for occurrence in observed.occurrences:
        if occurrence.uid != pod.uid or occurrence.reason not in ("FailedMount", "FailedAttachVolume"):
            continue
        volume = re.search(r'for volume "([^"]+)"', occurrence.message)
        reference = known.get(volume[1]) if volume else None
        if reference is not None and (found := _reference(observed, pod, reference, occurrence.message)):
            return found
        cause = occurrence.message.rstrip(".")
        text = f"pod {pod.name} can't mount a volume: {cause}. Mend it, or spec.worker.volumes. {GOES_ON}"
        other = Blocker(Reason.PODS_NOT_STARTING, text, pod.created_at)
    return other


def _reference(observed: Observed, pod: PodView, reference: Reference, message: str) -> Blocker | None:
    namespace = observed.identity.namespace
    key = re.search(r"references non-existent (?:secret|config) key: ([-._a-zA-Z0-9]+)", message)
    if key is None and f'"{reference.name}" not found' not in message:
        return None
    what = f"{reference.kind} {reference.name!r}"
    if key is None:
        kind = "secret generic" if reference.kind == "Secret" else "configmap"
        sources = " ".join(f"--from-file={name}=FILE" for name in reference.keys)
        found = f"{what} is missing in namespace {namespace!r} ({reference.field})"
        remedy = (
            f"It needs {_listed(reference.keys)}: `kubectl -n {namespace} create {kind} {reference.name} {sources}`"
        )
    else:
        found = f"{what} in namespace {namespace!r} has no key {key[1]!r} ({reference.field})"
        remedy = f"Add the key: `kubectl -n {namespace} edit {reference.kind.lower()} {reference.name}`"
    reason = Reason.SECRET_MISSING if reference.kind == "Secret" else Reason.CONFIG_MAP_MISSING
    return Blocker(reason, f"{found}. {remedy}, or correct the reference. {GOES_ON}", pod.created_at)


def _listed(keys: Sequence[str]) -> str:
    return ("the keys " if len(keys) > 1 else "the key ") + " and ".join(keys)


def _of(occurrences: Sequence[Occurrence], uid: str, reason: str) -> list[Occurrence]:
    """The Events of a reason about an object, oldest first."""
    found = (occurrence for occurrence in occurrences if occurrence.uid == uid and occurrence.reason == reason)
    return sorted(found, key=lambda occurrence: occurrence.at)


def next_look(blocker: Blocker | None, now: datetime, settings: Settings) -> timedelta:
    """When to look at pods that don't start again: soon, since what is said about them in Events wakes nobody."""
    soon = timedelta(seconds=5)
    if blocker is None or now >= blocker.overdue_at(settings):
        return soon
    return max(timedelta(seconds=1), min(soon, blocker.overdue_at(settings) - now))
