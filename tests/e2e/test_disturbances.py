"""What Kubernetes does to BatchJobs, on a real cluster: the rows that docs/disturbances.md marks."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hack.cluster.images import REGISTRY
from hack.cluster.programs import VERSITYGW
from hack.quickstart import quickstart_s3_keys

from e2e.conftest import fresh_quickstart
from e2e.quickstart import BUCKET, NAMESPACE, Quickstart, chat_line, condition
from fixtures.cluster import ROOT, Cluster, eventually
from fixtures.s3 import Account, S3Bucket, S3Server

POLICY = "batchwright-test-team"
ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObject")
OTHER_PROCESSOR = bytes.fromhex("7f454c460201010000000000000000000200b70001000000") + bytes(40)
"""The head of a program for an ARM of 64 bits."""
STORE = f"{REGISTRY}/versitygw:{VERSITYGW.version.removeprefix('v')}"
"""An image that every node has, and in which there is no worker."""
LINES, WORKERS, IN_FLIGHT = 2400, 2, 8


def hack_cluster(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "hack.cluster", *arguments], cwd=ROOT, check=True, timeout=180)


# Pods that can't start, or not stay

BINARY = "batchwright-test-binary"
"""A ConfigMap in the place of the worker's program."""
HINDERED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "memory": ({"resources": {"limits": {"memory": "24Mi"}}}, ("OOMKilled", "limit of 24Mi", "to 48Mi")),
    "program": ({"image": STORE}, ("can't start", "batchwright-worker", "spec.worker.image")),
    "processor": (
        {
            "volumes": [{"name": "bin", "configMap": {"name": BINARY, "defaultMode": 0o755}}],
            "volumeMounts": [{"name": "bin", "mountPath": "/other"}],
            "env": [{"name": "PATH", "value": "/other"}],
        },
        ("exec format error", "another kind of processor", "BATCHWRIGHT_WORKER_IMAGE"),
    ),
    "image": (
        {"image": "batchwright.local/nothing:1"},
        ("batchwright.local/nothing:1", "can't be pulled", "spec.worker.image"),
    ),
    "node": ({"nodeSelector": {"no-such": "label"}}, ("has no node", "nodeSelector")),
    "claim": (
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "no-such-claim"}}]},
        ("PersistentVolumeClaim 'no-such-claim' is missing", "spec.worker.volumes"),
    ),
}
"""What is asked of the pods, and what the message must name."""
MENDED: dict[str, dict[str, Any] | None] = {"memory": {"resources": {"limits": {"memory": "256Mi"}}}, "program": None}


@pytest.fixture(scope="module")
def hindered(cluster: Cluster, quickstart_bucket: Any) -> Iterator[dict[str, str]]:
    """The names of BatchJobs whose pods can't work. They run into it while another test waits."""
    with fresh_quickstart(cluster, quickstart_bucket) as quickstart:
        program = {"batchwright-worker": base64.b64encode(OTHER_PROCESSOR).decode()}
        metadata = {"name": BINARY, "namespace": NAMESPACE}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": program}
        quickstart.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        uri = quickstart.put(f"in/{BINARY}.jsonl", [chat_line("a")])
        names = {what: quickstart.name(what) for what in HINDERED}
        for what, (worker, _) in HINDERED.items():
            quickstart.apply(names[what], uri, worker=worker)
        yield names
        quickstart.kubectl("delete", "configmap", BINARY)


# Admission


@pytest.fixture
def strict(quickstart: Quickstart) -> Iterator[Quickstart]:
    """A namespace with Pod Security, a quota of no Job at all, and a policy that wants a label."""
    namespace = quickstart.cluster.make_namespace("strict")
    view = quickstart.elsewhere(namespace)
    kubectl = quickstart.cluster.kubectl
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    view.kubectl("create", "quota", "small", "--hard=count/jobs.batch=0,requests.memory=64Mi")
    for manifest in _policy(namespace):
        kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    try:
        yield view
    finally:
        kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", POLICY, "--ignore-not-found")
        view.kubectl("delete", "batchjobs", "--all", "--wait", "--timeout=60s", check=False)
        quickstart.cluster.delete_namespace(namespace)


def _policy(namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    labels = "object.spec.template.metadata.labels"
    rule = {"expression": f"has({labels}.team)", "message": "pods need the label team"}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": POLICY}}
    policy = {"matchConstraints": {"resourceRules": [jobs]}, "validations": [rule], "failurePolicy": "Fail"}
    binding = {"policyName": POLICY, "validationActions": ["Deny"], "matchResources": here}
    return (
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )


@pytest.mark.usefixtures("hindered")
def test_each_refusal_is_told_in_turn_and_its_remedy_moves_the_work_on(strict: Quickstart) -> None:
    eventually(lambda: _is_in_force(strict))
    name = strict.name("refused")
    network = {"name": "data", "nfs": {"server": "nfs.invalid", "path": "/"}}
    strict.apply(name, strict.put(f"in/{name}.jsonl", [chat_line("a")]), worker={"volumes": [network]})
    strict.wait_message(name, "Job", f"in namespace {strict.namespace}", "pods need the label team")
    stalled = condition(strict.wait_condition(name, "Stalled", "True"), "Stalled")
    assert stalled["reason"] == "JobRefused"

    strict.patch(name, worker={"labels": {"team": "research"}})
    strict.wait_message(name, "exceeded quota: small", "count/jobs.batch")
    strict.kubectl("patch", "quota", "small", "--type=merge", "-p", '{"spec": {"hard": {"count/jobs.batch": "9"}}}')
    strict.wait_message(name, "violates PodSecurity", "nfs")
    strict.patch(name, worker={"volumes": None})
    strict.wait_message(name, "exceeded quota: small", "requests.memory")
    strict.kubectl("delete", "quota", "small")
    strict.wait_condition(name, "Stalled", "False")


def _is_in_force(strict: Quickstart) -> None:
    """A policy takes a moment."""
    tried = strict.kubectl("create", "job", "probe", "--image=none", "--dry-run=server", check=False)
    assert "pods need the label team" in tried


def test_what_keeps_a_pod_from_working_is_told_with_a_remedy(quickstart: Quickstart, hindered: dict[str, str]) -> None:
    for what, (_, words) in HINDERED.items():
        quickstart.wait_message(hindered[what], *words)
    # A Job whose pods only fail is made anew once the spec was mended.
    for what, worker in MENDED.items():
        quickstart.patch(hindered[what], worker=worker)
    for what in MENDED:
        assert quickstart.wait(hindered[what], "completed")["status"]["requestCounts"]["completed"] == 1


# In mid-run


@pytest.fixture
def accounts(quickstart: Quickstart, tmp_path: Path) -> Iterator[tuple[S3Bucket, list[Account]]]:
    """Two accounts of the storage."""
    root = Account(*quickstart_s3_keys(), tmp_path)
    bucket = S3Bucket(S3Server(quickstart.s3.meta.endpoint_url, root, tmp_path), BUCKET, quickstart.s3)
    made = [Account.create(tmp_path / str(number), quickstart.name("user")) for number in range(2)]
    for account in made:
        bucket.server.create_user(account)
    with bucket.policy_kept() as allowing:
        yield allowing, made


@pytest.fixture
def priorities(quickstart: Quickstart) -> Iterator[tuple[str, str]]:
    """The names of two priority classes: below all others, and above them."""
    names = quickstart.name("low"), quickstart.name("high")
    kubectl = quickstart.cluster.kubectl
    for name, value in zip(names, (-1000, 1_000_000), strict=True):
        kubectl("create", "priorityclass", name, f"--value={value}")
    yield names
    kubectl("delete", "priorityclass", *names)


class MidRun:
    """A BatchJob that goes on until the model server is told to be quick, and what is done to it."""

    def __init__(self, quickstart: Quickstart, *, secret: str, priority: str) -> None:
        self.quickstart, self.secret = quickstart, secret
        quickstart.switch(delay="1")
        self.name = quickstart.name("midrun")
        self.lines = [chat_line(f"line-{number}") for number in range(LINES)]
        quickstart.apply(
            self.name,
            quickstart.put(f"in/{self.name}.jsonl", self.lines),
            sharding={"parallelism": WORKERS, "linesPerShard": 300},
            requests={"maxConcurrency": IN_FLIGHT, "timeout": "20s"},
            storage=quickstart.storage(secret),
            worker={"priorityClassName": priority},
        )
        self.goes_on(LINES // 100)
        self.uid = quickstart.get(self.name)["metadata"]["uid"]

    def children(self, kind: str, stage: str) -> list[dict[str, Any]]:
        selector = f"--selector=batchwright.dev/batchjob-uid={self.uid},batchwright.dev/stage={stage}"
        return list(json.loads(self.quickstart.kubectl("get", kind, selector, "-o", "json"))["items"])

    def workers(self, count: int = WORKERS) -> list[str]:
        """The names of the workers, once so many run that nobody has told to leave."""

        def running() -> list[str]:
            pods = [
                pod["metadata"]["name"]
                for pod in self.children("pods", "run")
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            ]
            assert len(pods) == count, f"{pods} run"
            return pods

        return eventually(running, seconds=90)

    def is_replaced(self, pod: str) -> None:
        assert pod not in self.workers()

    def lacks_one_of(self, pods: list[str]) -> None:
        assert set(pods) - set(self.workers(len(pods) - 1))

    def goes_on(self, more: int = 4 * WORKERS * IN_FLIGHT) -> None:
        """So many more requests arrive."""
        self.quickstart.wait_arrivals(len(self.quickstart.arrivals()) + more)

    def evict(self, pod: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        self.quickstart.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def rotate(self, account: Account) -> None:
        """Put other keys into the Secret, and wait until the running workers have them."""
        data = {
            name: base64.b64encode((account.credentials_dir / name).read_bytes().strip()).decode()
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        }
        self.quickstart.kubectl("patch", "secret", self.secret, "--type=merge", "-p", json.dumps({"data": data}))
        for pod in self.workers():
            # The kubelet looks at a pod that changes at once, and else once a minute.
            self.quickstart.kubectl("annotate", "pod", pod, "test/rotated=true")
            eventually(partial(self._has, pod, account), seconds=100)

    def _has(self, pod: str, account: Account) -> None:
        code = "print(open('/etc/batchwright/storage/output/AWS_ACCESS_KEY_ID').read())"
        assert account.access_key in self.quickstart.kubectl("exec", pod, "--", "python3", "-c", code)

    def delete_job(self, stage: str, *options: str) -> str:
        """Delete the Job of a stage as a person would; gives its UID."""
        (job,) = self.children("jobs", stage)
        self.quickstart.kubectl("delete", "job", job["metadata"]["name"], "--wait=false", *options)
        return str(job["metadata"]["uid"])

    def has_another_job(self, than: str, stage: str) -> None:
        assert [job["metadata"]["uid"] for job in self.children("jobs", stage) if job["metadata"]["uid"] != than]


def _room_for_none(quickstart: Quickstart, priority: str) -> dict[str, Any]:
    """A pod for which a worker must make room on the only node that takes pods."""
    nodes = json.loads(quickstart.cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    (node,) = (node for node in nodes if not node["spec"].get("unschedulable"))
    pods = json.loads(
        quickstart.cluster.kubectl(
            *("get", "pods", "-A", "-o", "json", f"--field-selector=spec.nodeName={node['metadata']['name']}"),
        )
    )["items"]
    taken = sum(
        _milli(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for pod in pods
        if pod["status"]["phase"] in ("Pending", "Running")
        for container in pod["spec"]["containers"]
    )
    wanted = _milli(node["status"]["allocatable"]["cpu"]) - taken + 50
    container = {
        "name": "big",
        "image": STORE,
        "args": ["--version"],
        "resources": {"requests": {"cpu": f"{wanted}m"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": quickstart.name("big"), "namespace": NAMESPACE},
        "spec": {
            "priorityClassName": priority,
            "restartPolicy": "Never",
            "containers": [container],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(float(cpu) * 1000)


@pytest.mark.timeout(420)
def test_whatever_befalls_a_run_every_line_is_published_once(
    quickstart: Quickstart, accounts: tuple[S3Bucket, list[Account]], priorities: tuple[str, str]
) -> None:
    bucket, (first, second) = accounts
    low, high = priorities
    secret = quickstart.name("rotated")
    bucket.allow(first, *ACTIONS)
    quickstart.kubectl("create", "secret", "generic", secret, f"--from-file={first.credentials_dir}")
    try:
        run = MidRun(quickstart, secret=secret, priority=low)

        _rotate_the_secret(run, bucket, first, second)
        _evict_a_worker(run)
        _preempt_a_worker(run, high)
        _delete_the_config_map(run)
        gone = run.delete_job("run")
        eventually(lambda: run.has_another_job(gone, "run"))
        _orphan_the_workers(run)
        _take_the_api_server_away(run)
        status = _end(run)
    finally:
        quickstart.kubectl("delete", "secret", secret)

    assert status["requestCounts"] == {"total": LINES, "completed": LINES, "failed": 0}
    ids = [line["custom_id"] for line in run.lines]
    assert [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])] == ids
    arrivals = quickstart.arrivals()
    assert set(arrivals) == set(ids)
    # Workers that are told to leave wait for their answers; those of a deleted Job may meet their successors. While the
    # API server is away, its Services may lose their endpoints.
    assert sum(arrivals.values()) - LINES <= 4 * WORKERS * IN_FLIGHT


def _rotate_the_secret(run: MidRun, bucket: S3Bucket, first: Account, second: Account) -> None:
    workers = run.workers()
    bucket.allow_all([first, second], *ACTIONS)
    run.rotate(second)
    bucket.allow(second, *ACTIONS)  # the first keys are worth nothing from now on
    run.goes_on(6 * WORKERS * IN_FLIGHT)  # for longer than from one segment to the next
    assert run.workers() == workers, "a rotated Secret reaches the workers that run"


def _evict_a_worker(run: MidRun) -> None:
    evicted = run.workers()[0]
    run.evict(evicted)
    eventually(lambda: run.is_replaced(evicted), seconds=60)


def _preempt_a_worker(run: MidRun, priority: str) -> None:
    workers = run.workers()
    pod = _room_for_none(run.quickstart, priority)
    run.quickstart.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        eventually(lambda: run.lacks_one_of(workers))
        run.goes_on()  # by the other one
    finally:
        run.quickstart.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=1")
    run.workers()


def _delete_the_config_map(run: MidRun) -> None:
    (pod, *_) = run.children("pods", "run")
    (name,) = (one["configMap"]["name"] for one in pod["spec"]["volumes"] if one["name"] == "batchwright-job")
    run.quickstart.kubectl("delete", "configmap", name)
    run.quickstart.patch(run.name, requests={"retries": 5})  # somebody changes the spec, so that the operator looks
    eventually(lambda: run.quickstart.kubectl("get", "configmap", name))


def _orphan_the_workers(run: MidRun) -> None:
    workers = run.workers()
    gone = run.delete_job("run", "--cascade=orphan")
    eventually(lambda: run.has_another_job(gone, "run"), seconds=60)
    assert not set(workers) & set(run.workers()), "nobody works beside the workers of the new Job"


def _take_the_api_server_away(run: MidRun) -> None:
    workers, before = run.workers(), len(run.quickstart.arrivals())
    hack_cluster("pause-api-server", "--seconds", "12")
    assert len(run.quickstart.arrivals()) > before, "workers need no API server"
    run.goes_on()
    assert run.workers() == workers


def _end(run: MidRun) -> dict[str, Any]:
    """Let the run end, and take its merge away once."""
    run.quickstart.switch(delay="0.01")
    gone = eventually(lambda: _only(run.children("jobs", "merge")), seconds=120)["metadata"]["uid"]
    run.quickstart.kubectl("delete", "jobs", f"--selector=batchwright.dev/batchjob-uid={run.uid}", "--wait=false")
    began = time.monotonic()
    status: dict[str, Any] = run.quickstart.wait(run.name, "completed", seconds=120)["status"]
    print(f"completed {time.monotonic() - began:.0f} s after Job {gone} and the run's were deleted")
    return status


def _only(children: list[dict[str, Any]]) -> dict[str, Any]:
    assert children
    return children[0]
