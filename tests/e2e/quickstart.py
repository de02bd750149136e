"""The quickstart's cluster as a test sees it: BatchJobs, the S3 bucket, the stub model server."""

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import httpx

from fixtures.cluster import Cluster, eventually

NAMESPACE = "batchwright-demo"
OPERATOR_NAMESPACE = "batchwright-system"
BUCKET = "batches"
TERMINAL = ("completed", "failed", "cancelled", "expired")
CHAT = "/v1/chat/completions"


def chat_line(custom_id: str, *, text: str = "", stub: str = "", model: str = "stub-model") -> dict[str, Any]:
    """A request line; `stub` holds switches of the model server for this request."""
    metadata = {"id": custom_id, **({"stub": stub} if stub else {})}
    body = {"model": model, "messages": [{"role": "user", "content": text or custom_id}], "metadata": metadata}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


def jsonl(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Objects as JSONL."""
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of a BatchJob; empty where it has none of that type."""
    return next((c for c in job.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def moment(text: str) -> datetime:
    """A time of the status."""
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class Quickstart:
    """One test's view: its objects bear names of their own, so that tests don't meet."""

    cluster: Cluster
    s3: Any
    stub: httpx.Client
    namespace: str = NAMESPACE

    def elsewhere(self, namespace: str) -> "Quickstart":
        """The same servers for BatchJobs of another namespace, which gets the Secret of the storage."""
        secret = json.loads(self.kubectl("get", "secret", "s3-credentials", "-o", "json"))
        secret["metadata"] = {"name": "s3-credentials", "namespace": namespace}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(secret))
        return replace(self, namespace=namespace)

    def name(self, prefix: str = "e2e") -> str:
        return f"{prefix}-{uuid.uuid4().hex[:8]}"

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin, check=check)

    def put(self, key: str, lines: Iterable[Mapping[str, Any]] | bytes) -> str:
        """Put an input object; gives its URI."""
        data = lines if isinstance(lines, bytes) else jsonl(lines)
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def lines_at(self, uri: str) -> list[dict[str, Any]]:
        """The lines of a published object."""
        bucket, key = uri.removeprefix("s3://").split("/", 1)
        body = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert body.endswith(b"\n")
        return [json.loads(line) for line in body[:-1].split(b"\n")]

    def apply(self, name: str, input_uri: str, **spec: Any) -> None:
        """Apply a BatchJob as in the sample manifest, with changes."""
        manifest = {
            "apiVersion": "batchwright.dev/v1alpha1",
            "kind": "BatchJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "input": {"uri": input_uri},
                "output": {"uri": f"s3://{BUCKET}/out/"},
                "server": self.server,
                "storage": self.storage(),
                "sharding": {"parallelism": 2},
                "requests": {"maxConcurrency": 16},
            }
            | spec,
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    @property
    def server(self) -> dict[str, Any]:
        """spec.server: a Service of the own namespace, or a URL in another one's."""
        if self.namespace == NAMESPACE:
            return {"service": {"name": "model-server", "port": 8000}}
        return {"url": f"http://model-server.{NAMESPACE}:8000"}

    def storage(self, secret: str = "s3-credentials") -> dict[str, Any]:
        """spec.storage."""
        host = "s3" if self.namespace == NAMESPACE else f"s3.{NAMESPACE}"
        return {"endpointURL": f"http://{host}:7070", "credentialsSecretRef": {"name": secret}}

    def patch(self, name: str, **spec: Any) -> None:
        """Merge changes into a BatchJob's spec; None removes a field."""
        self.kubectl("patch", "batchjob", name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def wait_message(self, name: str, *words: str, seconds: float = 90) -> str:
        """The message of the status once all these words are in it."""

        def message() -> str:
            text = str(self.get(name).get("status", {}).get("message", ""))
            missing = [word for word in words if word not in text]
            assert not missing, f"{missing} not in {text!r}: {self._story(name)}"
            return text

        return eventually(message, seconds=seconds)

    def get(self, name: str) -> dict[str, Any]:
        """The BatchJob as it is now."""
        found = json.loads(self.kubectl("get", "batchjob", name, "-o", "json"))
        assert isinstance(found, dict)
        return found

    def wait(self, name: str, *phases: str, seconds: float = 240) -> dict[str, Any]:
        """The BatchJob once it is in one of the phases; by default in any terminal one."""
        wanted = phases or TERMINAL
        end = time.monotonic() + seconds
        while True:
            job = self.get(name)
            phase = job.get("status", {}).get("phase")
            if phase in wanted:
                return job
            if phase in TERMINAL or time.monotonic() > end:
                raise AssertionError(f"{name} is {phase}, not {' or '.join(wanted)}: {self._story(name)}")
            time.sleep(0.5)

    def wait_condition(self, name: str, kind: str, status: str, *, seconds: float = 180) -> dict[str, Any]:
        """The BatchJob once it has a condition."""
        end = time.monotonic() + seconds
        while True:
            job = self.get(name)
            if condition(job, kind).get("status") == status:
                return job
            if time.monotonic() > end:
                raise AssertionError(f"{name} has no {kind} {status}: {self._story(name)}")
            time.sleep(0.5)

    def run(self, name: str, lines: Iterable[Mapping[str, Any]] | bytes, **spec: Any) -> dict[str, Any]:
        """Put an input, apply a BatchJob, wait for its end."""
        self.apply(name, self.put(f"in/{name}.jsonl", lines), **spec)
        return self.wait(name)

    def arrivals(self) -> dict[str, int]:
        """How often each request (by metadata.id) reached the model server since the start of the test."""
        arrived = self.stub.get("/stub/arrivals", params={"last": 0}).raise_for_status().json()["arrived"]
        assert isinstance(arrived, dict)
        return arrived

    def wait_arrivals(self, count: int, *, seconds: float = 120) -> None:
        """Wait until so many different requests have reached the model server."""
        end = time.monotonic() + seconds
        while len(self.arrivals()) < count:
            assert time.monotonic() < end, f"only {len(self.arrivals())} requests arrived"
            time.sleep(0.2)

    def switch(self, **changes: Any) -> None:
        """Change how the model server behaves."""
        self.stub.post("/stub/switches", json=changes).raise_for_status()

    def _story(self, name: str) -> str:
        described = self.kubectl("describe", "batchjob", name, check=False)
        pods = self.kubectl("get", "jobs,pods", "-o", "wide", check=False)
        log = self.cluster.kubectl(
            "--namespace", OPERATOR_NAMESPACE, "logs", "deployment/batchwright-operator", "--tail=40", check=False
        )
        return f"{described}\n{pods}\n{log}"
