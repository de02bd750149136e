"""A shared volume of the cluster's node, two tenants on it, and a gateway of the test's own that serves them paths."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from e2e.quickstart import NAMESPACE, jsonl
from fixtures.cluster import Cluster, eventually

MOUNT = "/data"
WORKERS = "65532:65532"
"""User and group of worker pods: kubelets don't change owners in a hostPath volume."""
IMAGE = "batchwright.local/worker:dev"
START_SECONDS = 60


@dataclass(frozen=True)
class Volume:
    """The volume as its administrator has it: through a pod that mounts all of it."""

    cluster: Cluster
    namespace: str
    folder: str

    def run(self, script: str, stdin: str | None = None) -> str:
        """Run shell commands in the volume's root."""
        script = f"cd /host/{self.folder} && {script}"
        arguments = ("exec", "--namespace", self.namespace, "admin", "-i", "--", "sh", "-ec", script)
        return self.cluster.kubectl(*arguments, stdin=stdin or "")

    def put(self, path: str, lines: list[dict[str, Any]]) -> str:
        """Write an input; gives its path as people write it."""
        name = path.removeprefix(f"{MOUNT}/")
        self.run(f"cat > '{name}' && chown {WORKERS} '{name}'", jsonl(lines).decode())
        return path

    def read(self, path: str) -> str:
        """The text of a file by the path that people are told."""
        return self.run(f"cat '{path.removeprefix(f'{MOUNT}/')}'")

    def lines(self, path: str) -> list[dict[str, Any]]:
        """The lines of a published file."""
        return [json.loads(line) for line in self.read(path).splitlines()]

    def files(self) -> list[str]:
        """Every file and link of the volume with its size and, for a link, its target."""
        return sorted(self.run("find . ! -type d -printf '%p %s %l\\n'").splitlines())


@dataclass(frozen=True)
class Tenant:
    """A namespace, and a client with its API key."""

    namespace: str
    http: httpx.Client

    @property
    def root(self) -> str:
        """Its part of the volume."""
        return f"{MOUNT}/tenants/{self.namespace}"

    def create(self, input_file: str, **asked: Any) -> str:
        """Create a batch; gives its id."""
        answer = self.http.post(
            "/resource_server/local/vllm/v1/batches", json={"model": "stub-model", "input_file": input_file, **asked}
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["batch_id"])

    def status(self, batch_id: str) -> str:
        answer = self.http.get(f"/resource_server/v1/batches/{batch_id}").raise_for_status()
        return str(answer.json())

    def result(self, batch_id: str) -> Any:
        return self.http.get(f"/resource_server/v1/batches/{batch_id}/result").raise_for_status().json()

    def wait(self, batch_id: str, wanted: str, *, seconds: float = 150) -> Any:
        """The result once the batch has ended so."""
        end = time.monotonic() + seconds
        while (status := self.status(batch_id)) not in ("completed", "failed"):
            assert time.monotonic() < end, f"{batch_id} is still {status}"
            time.sleep(0.5)
        result = self.result(batch_id)
        assert status == wanted, result
        return result


@dataclass(frozen=True)
class PathWorld:
    """Everything that a test needs."""

    volume: Volume
    alice: Tenant
    bob: Tenant


@contextmanager
def path_world(cluster: Cluster, folder: Path) -> Iterator[PathWorld]:
    """Make it, and take it away again."""
    with ExitStack() as stack:
        admin, first, second = (stack.enter_context(_namespace(cluster, name)) for name in ("paths", "team", "team"))
        volume = stack.enter_context(_volume(cluster, admin, (first, second)))
        url = stack.enter_context(_gateway(cluster, admin, folder))
        tenants = [
            Tenant(namespace, stack.enter_context(_client(url, _key(cluster, admin, namespace))))
            for namespace in (first, second)
        ]
        yield PathWorld(volume, *tenants)


@contextmanager
def _namespace(cluster: Cluster, prefix: str) -> Iterator[str]:
    name = cluster.make_namespace(prefix)
    try:
        yield name
    finally:
        cluster.kubectl("--namespace", name, "delete", "batchjobs", "--all", "--timeout=60s", check=False)
        cluster.delete_namespace(name)


@contextmanager
def _volume(cluster: Cluster, namespace: str, tenants: tuple[str, str]) -> Iterator[Volume]:
    """A folder of one node, with a claim in each tenant's namespace that is bound to it."""
    folder = f"batchwright-e2e-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_admin_pod(namespace)))
    cluster.kubectl("--namespace", namespace, "wait", "pod/admin", "--for=condition=Ready", "--timeout=90s")
    node = cluster.kubectl("--namespace", namespace, "get", "pod", "admin", "-o", "jsonpath={.spec.nodeName}")
    names = [f"{folder}-{tenant}" for tenant in tenants]
    items = [
        manifest
        for name, tenant in zip(names, tenants, strict=True)
        for manifest in (_persistent_volume(name, folder, node, tenant), _claim(name, tenant))
    ]
    volume = Volume(cluster, namespace, folder)
    try:
        own = " ".join(f"tenants/{tenant}" for tenant in tenants)
        cluster.kubectl(
            *("exec", "--namespace", namespace, "admin", "--", "sh", "-ec"),
            f"cd /host && mkdir {folder} && cd {folder} && mkdir -p public {own} && chown {WORKERS} {own}",
        )
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        yield volume
    finally:
        cluster.kubectl("delete", "persistentvolume", *names, "--wait=false", "--ignore-not-found", check=False)
        remove = f"rm -rf /host/{folder}"
        cluster.kubectl("exec", "--namespace", namespace, "admin", "--", "sh", "-ec", remove, check=False)


def _admin_pod(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "admin", "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "admin",
                    "image": IMAGE,
                    "command": ["sleep", "3600"],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }
            ],
            "volumes": [{"name": "host", "hostPath": {"path": "/var/tmp"}}],
        },
    }


def _persistent_volume(name: str, folder: str, node: str, tenant: str) -> dict[str, Any]:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": tenant, "name": "data"},
            "hostPath": {"path": f"/var/tmp/{folder}", "type": "Directory"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def _claim(volume: str, tenant: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": tenant},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@contextmanager
def _gateway(cluster: Cluster, namespace: str, folder: Path) -> Iterator[str]:
    """The gateway's own program on this machine, with its records in a folder; its keys are in the namespace."""
    settings = {
        "batchPath": f"file://{folder}/batches/",
        "defaultServer": {"url": f"http://model-server.{NAMESPACE}:8000"},
        "sharedVolume": {"claimName": "data", "mountPath": MOUNT, "sharedRoots": ["public"]},
        "batchJobs": {
            "sharding": {"linesPerShard": 50, "parallelism": 2},
            "requests": {"maxConcurrency": 4, "concurrency": "Fixed"},
        },
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    (folder / "spool").mkdir()
    log = folder / "gateway.log"
    environment = _environment(cluster) | {
        "BATCHWRIGHT_GATEWAY_SETTINGS": str(folder / "settings.yaml"),
        "BATCHWRIGHT_GATEWAY_MODELS": str(folder / "models.yaml"),
        "BATCHWRIGHT_GATEWAY_SPOOL": str(folder / "spool"),
        "BATCHWRIGHT_GATEWAY_PORT": "0",
        "POD_NAMESPACE": namespace,
    }
    command = [sys.executable, "-m", "batchwright.gateway.main", "serve"]
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            yield f"http://127.0.0.1:{_port(process, log)}"
        finally:
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    mark = "serving on port "
    end = time.monotonic() + START_SECONDS
    while mark not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    return int(log.read_text().partition(mark)[2].split()[0])


def _environment(cluster: Cluster) -> dict[str, str]:
    return os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}


def _key(cluster: Cluster, gateway_namespace: str, namespace: str) -> str:
    command = [sys.executable, "-m", "batchwright.gateway.main", "keys", "create"]
    command += ["--gateway-namespace", gateway_namespace, "--namespace", namespace, "--user", "tester"]
    made = subprocess.run(command, env=_environment(cluster), stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return made.stdout.strip()


@contextmanager
def _client(url: str, key: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:

        def known() -> None:
            assert client.get("/resource_server/v1/batches").status_code == 200

        eventually(known, seconds=20)  # keys are read again every few seconds
        yield client
