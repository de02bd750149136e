"""The cluster as chaos touches it: two namespaces, its nodes' containers, its control plane."""

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.cluster import kind
from hack.cluster.commands import run
from hack.cluster.console import ClusterError
from hack.cluster.layout import NODES, Layout
from hack.quickstart import kubectl_command
from kubernetes import client, config

from batchwright.kube import errors
from batchwright.kube.connection import Connection, TimeLimits, path_of
from chaos.observation import Pod, Snapshot, snapshot
from chaos.runner import Unreachable
from chaos.script import Kill, Manner, Script, Target
from chaos.victims import Victim

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE, OPERATOR_NAMESPACE, BUCKET = "batchwright-demo", "batchwright-system", "batches"
LABEL = "batchwright.dev/chaos"
TIME_LIMITS = TimeLimits(connect=3, read=10)
COMMAND_SECONDS = 240
REQUEST_TIMEOUT = "20s"
"""spec.requests.timeout. A worker on a lost node is given up this and half a minute after its node."""


class ClusterWorld:
    """Carries out what the runner asks for. Containers are killed by their ids, which no other cluster knows."""

    def __init__(self, kubeconfig: Path, label: str) -> None:
        """label: what BatchJobs of this run bear, and no others; the run sees only these."""
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
        settings.retries = False
        self._api_client = client.ApiClient(settings)
        self._api = Connection(self._api_client, time_limits=TIME_LIMITS)
        self._label = label
        self._layout = Layout()
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="chaos")
        self._away: dict[Future[None], Target] = {}

    def close(self) -> None:
        """Wait until what is away is back."""
        self._threads.shutdown(wait=True)
        self._api_client.close()  # type: ignore[no-untyped-call]

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def observe(self) -> Snapshot:
        with _reachable():
            jobs = self._api.list(_batchjobs(), {"labelSelector": f"{LABEL}={self._label}"})
            pods = [pod for namespace in (NAMESPACE, OPERATOR_NAMESPACE) for pod in self._api.list(_pods(namespace))]
        seen = snapshot(jobs, pods)
        # Workers of other BatchJobs are none of ours.
        ours = tuple(pod for pod in seen.pods if pod.target is not Target.WORKER or pod.job in seen.jobs)
        return Snapshot(seen.jobs, ours)

    def apply(self, script: Script) -> None:
        with _reachable(errors.AlreadyExists):
            self._api.create(_batchjobs(), manifest(script, self._label))

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        with _reachable(errors.NotFound):
            self._api.patch(_batchjobs(name), {"spec": dict(spec)})

    def delete(self, name: str) -> None:
        with _reachable(errors.NotFound):
            self._api.delete(_batchjobs(name))

    def strike(self, kill: Kill, victim: Victim) -> bool:
        match kill.manner:
            case Manner.CRASH | Manner.STOP:
                return self._signal(victim.pods[0], kill.manner.value)
            case Manner.DELETE | Manner.EVICT:
                return _delete_pod(victim.pods[0], force=kill.manner is Manner.DELETE)
            case Manner.POWER_CUT:
                self._later(kill.target, lambda: _without_node(victim.node, kill.seconds))
            case Manner.HANG | Manner.AWAY:
                stop = ("--stop",) if kill.manner is Manner.AWAY else ()
                command = ("pause-api-server", "--seconds", str(kill.seconds), *stop)
                self._later(kill.target, lambda: hack_cluster(*command))
        return True

    def away(self) -> Collection[Target]:
        for future in [future for future in self._away if future.done()]:
            del self._away[future]
            future.result()  # a node that does not come back is a reason to stop
        return set(self._away.values())

    def _later(self, target: Target, work: Callable[[], None]) -> None:
        self._away[self._threads.submit(work)] = target

    def _signal(self, pod: Pod, signal: str) -> bool:
        try:
            run(*self._containerd(pod.node), "tasks", "kill", "--signal", signal, pod.container, timeout=30)
        except ClusterError as error:
            # The pod has ended, or its node has no power at the moment.
            if "not found" in str(error) or "failed to dial" in str(error):
                return False
            raise
        return True

    def _containerd(self, node: str) -> tuple[str, ...]:
        if kind.exists():
            return ("docker", "exec", node, "ctr", "--namespace", "k8s.io")
        (found,) = (one for one in NODES if one.name == node)
        return ("ctr", "--address", str(self._layout.containerd_socket(found)), "--namespace", "k8s.io")


def _delete_pod(pod: Pod, *, force: bool) -> bool:
    how = ("--grace-period=0", "--force") if force else ()
    command = ("--namespace", pod.namespace, "delete", "pod", pod.name, "--wait=false", "--request-timeout=10s", *how)
    try:
        run(*kubectl_command(*command), timeout=30)
    except ClusterError as error:
        if "NotFound" in str(error):
            return False
        raise Unreachable(str(error)) from error
    return True


def _batchjobs(*name: str) -> str:
    return path_of("batchwright.dev/v1alpha1", "batchjobs", NAMESPACE, *name)


def _pods(namespace: str) -> str:
    return path_of("v1", "pods", namespace)


def hack_cluster(*arguments: str) -> None:
    """Run a command of hack.cluster. Raises CalledProcessError, with what it printed shown."""
    subprocess.run([sys.executable, "-m", "hack.cluster", *arguments], cwd=ROOT, check=True, timeout=COMMAND_SECONDS)


def manifest(script: Script, label: str) -> dict[str, Any]:
    """The BatchJob of a script."""
    requests: dict[str, Any] = {
        "maxConcurrency": script.concurrency,
        "concurrency": "Fixed",
        "timeout": REQUEST_TIMEOUT,
    }
    if script.max_failures is not None:
        requests["maxFailures"] = script.max_failures
    spec: dict[str, Any] = {
        "input": {"uri": f"s3://{BUCKET}/{input_key(script)}"},
        "output": {"uri": f"s3://{BUCKET}/out/"},
        "server": {"service": {"name": "model-server", "port": 8000}},
        "storage": {"endpointURL": "http://s3:7070", "credentialsSecretRef": {"name": "s3-credentials"}},
        "sharding": {"parallelism": script.workers, "linesPerShard": script.lines_per_shard},
        "requests": requests,
        # Many small workers on one small node.
        "worker": {"resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}},
    }
    if script.window is not None:
        spec["completionWindow"] = f"{script.window}s"
    metadata = {"name": script.name, "namespace": NAMESPACE, "labels": {LABEL: label}}
    return {"apiVersion": "batchwright.dev/v1alpha1", "kind": "BatchJob", "metadata": metadata, "spec": spec}


def input_key(script: Script) -> str:
    """Where a script's input lies in the bucket."""
    return f"in/{script.name}.jsonl"


def _without_node(node: str, seconds: float) -> None:
    hack_cluster("kill-node", node)
    try:
        time.sleep(seconds)
    finally:
        hack_cluster("revive-node", node)


@contextmanager
def _reachable(*accepted: type[errors.KubernetesError]) -> Iterator[None]:
    """Tell an API server that is away from all else. What is accepted is a call made before, whose answer was lost."""
    try:
        yield
    except accepted:
        pass
    except errors.Unavailable as error:
        raise Unreachable(str(error)) from error
