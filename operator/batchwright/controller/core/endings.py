"""What people read about a pod that ended without a report: what ended it, where, and what to do about it.

The cluster says it in several places: a pod's condition DisruptionTarget, the reason of the kubelet, an exit code, the
runtime's own words, and the end of the log, which Kubernetes keeps where a container failed without a message.
"""

from batchwright.controller.core.observed import Disruption, Observed, PodView, Stage, Termination
from batchwright.controller.core.resources import doubled

_SIGKILL = 137
_NOT_EXECUTABLE, _NOT_FOUND, _NOT_STARTED = 126, 127, 128
_CANNOT_START = frozenset({_NOT_EXECUTABLE, _NOT_FOUND, _NOT_STARTED})
"""By shells and container runtimes alike."""
_RUNTIME_REASONS = frozenset({"StartError", "ContainerCannotRun"})
_WRONG_FORMAT = "exec format error"
_LAST_WORDS = 300

_DISRUPTIONS = {
    "EvictionByEvictionAPI": "was evicted",
    "Evicted": "was evicted",
    "PreemptionByScheduler": "made room for a pod of higher priority",
    "Preempting": "made room for a pod of higher priority",
    "DeletionByTaintManager": "had to leave its node, which has a taint",
    "DeletionByPodGC": "was lost with its node",
    "DeletionByBatchwright": "was lost with its node",
    "TerminationByKubelet": "was ended by its node",
}


def cannot_start(termination: Termination) -> bool:
    """Whether a container ended because its image can't be run, and not for what it did."""
    return (
        termination.reason in _RUNTIME_REASONS
        or _WRONG_FORMAT in termination.message
        or (termination.exit_code in _CANNOT_START and termination.report is None)
    )


def of_disrupted_pod(pod: PodView, disruption: Disruption) -> str:
    """Why Kubernetes ended a pod."""
    what = _DISRUPTIONS.get(disruption.reason, f"was ended ({disruption.reason})")
    place = f" on node {pod.node}" if pod.node else ""
    detail = f": {disruption.message.strip().rstrip('.')}" if disruption.message.strip() else ""
    return f"pod {pod.name}{place} {what}{detail}"


def of_container(observed: Observed, pod: PodView, termination: Termination) -> str:
    """How a container ended that left no report."""
    if termination.reason == "OOMKilled":
        return _out_of_memory(pod)
    if cannot_start(termination):
        return _image(observed, pod, termination)
    code = termination.exit_code
    killed = " (killed: by its node, for want of memory or at the end of its time, or by a person)"
    see = f"see `kubectl -n {observed.identity.namespace} logs {pod.name}`"
    last = _last_words(termination)
    said = f". Its log ends: {last}" if last else ""
    return f"pod {pod.name} ended with exit code {code}{killed if code == _SIGKILL else ''} and no report{said}: {see}"


def _out_of_memory(pod: PodView) -> str:
    limit = f" of {pod.memory_limit}" if pod.memory_limit else ""
    twice = doubled(pod.memory_limit)
    remedy = "raise spec.worker.resources.limits.memory" + (f", to {twice} for instance" if twice else "")
    if pod.stage is Stage.RUN:
        remedy += ", or lower spec.requests.maxConcurrency"
    return f"pod {pod.name} was killed (OOMKilled): it needed more memory than its limit{limit}: {remedy}"


def _image(observed: Observed, pod: PodView, termination: Termination) -> str:
    own = observed.spec is not None and observed.spec.worker is not None and observed.spec.worker.image is not None
    field = "spec.worker.image" if own else "the operator's setting BATCHWRIGHT_WORKER_IMAGE"
    last = _last_words(termination)
    detail = f": {last}" if last else f" (exit code {termination.exit_code})"
    if _WRONG_FORMAT in termination.message:
        node = f" {pod.node}" if pod.node else ""
        cause = f"It is built for another kind of processor than that of node{node}"
    else:
        cause = "It has no batchwright-worker that can be run"
    return (
        f"the image of pod {pod.name} can't start{detail}. {cause}: set {field} to a worker image of Batchwright for"
        " this kind of node"
    )


def _last_words(termination: Termination) -> str:
    """The end of what the container or its runtime said, in one line."""
    lines = [line.strip() for line in termination.message.splitlines() if line.strip()]
    return lines[-1][-_LAST_WORDS:].rstrip(".") if lines else ""
