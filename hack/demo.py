#!/usr/bin/env python3
"""`make demo`: apply a BatchJob, watch it to its end, show the first results. With --vllm, against a real vLLM."""

import argparse
import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack.quickstart import BUCKET, NAMESPACE, ROOT, kubectl, kubectl_command, kubectl_json, quickstart_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SHOWN = 3
PATIENCE_SECONDS = 600
TERMINAL = {"completed", "failed", "cancelled", "expired"}


@dataclass(frozen=True, slots=True)
class Demo:
    """One of the sample BatchJobs, and what it asks."""

    name: str
    """The BatchJob's, its sample's and its input's."""
    requests: int
    model: str
    max_tokens: int | None = None

    @property
    def manifest(self) -> Path:
        """Its sample, from the folder that kubectl is shown to run in."""
        return Path("manifests", "samples", f"{self.name}.yaml")

    def input(self) -> bytes:
        """Its request lines."""
        return "".join(json.dumps(self._line(number)) + "\n" for number in range(1, self.requests + 1)).encode()

    def _line(self, number: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": f"request {number}"}]}
        if self.max_tokens is not None:
            body["max_tokens"] = self.max_tokens
        return {"custom_id": f"demo-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


# Its answers can be checked by eye: the stub answers with the text backwards.
STUB = Demo("quickstart", 5000, "stub-model")
# Its answers make no sense: the model's weights are random.
VLLM = Demo("vllm-demo", 400, "tiny", max_tokens=16)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", action="store_true", help="against the vLLM of `make vllm-up`, not the stub")
    demo = VLLM if parser.parse_args(arguments).vllm else STUB
    kubectl("-n", NAMESPACE, "delete", "batchjob", demo.name, "--ignore-not-found", "--wait")
    with quickstart_s3() as s3:
        forget_earlier_results(s3, demo)
        s3.put_object(Bucket=BUCKET, Key=f"in/{demo.name}.jsonl", Body=demo.input())
    show(f"kubectl apply -f {demo.manifest}")
    print(kubectl("apply", "-f", str(ROOT / demo.manifest)), end="")
    show(f"kubectl -n {NAMESPACE} get batchjob {demo.name} --watch")
    with watching(demo):
        job = wait_for_the_end(demo)
    show(f"kubectl -n {NAMESPACE} get batchjobs")
    print(kubectl("-n", NAMESPACE, "get", "batchjobs"), end="")
    if job["status"]["phase"] != "completed":
        print(job["status"].get("message", ""))
        return 1
    show_results(job["status"]["output"]["uri"])
    show_gateway()
    return 0


def forget_earlier_results(s3: "S3Client", demo: Demo) -> None:
    """Otherwise a second demo would find its work done and end at once."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"out/{demo.name}/"):
        for found in page.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=found["Key"])


@contextlib.contextmanager
def watching(demo: Demo) -> Iterator[None]:
    """Print the table's rows as they change."""
    process = subprocess.Popen(kubectl_command("-n", NAMESPACE, "get", "batchjob", demo.name, "--watch"))
    try:
        yield
        time.sleep(1)  # the last row is on its way
    finally:
        process.terminate()
        process.wait(10)


def wait_for_the_end(demo: Demo) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        job = kubectl_json("-n", NAMESPACE, "get", "batchjob", demo.name)
        if job.get("status", {}).get("phase") in TERMINAL:
            return job
        time.sleep(1)
    look = f"kubectl -n {NAMESPACE} describe batchjob {demo.name}"
    raise SystemExit(f"{demo.name} did not end in {PATIENCE_SECONDS} s; `{look}`")


def show_results(uri: str) -> None:
    print(f"\nfirst results of {uri}: custom_id, answer")
    bucket, key = uri.removeprefix("s3://").split("/", 1)
    with quickstart_s3() as s3:
        body = s3.get_object(Bucket=bucket, Key=key, Range="bytes=0-65535")["Body"].read()
    for line in body.split(b"\n")[:SHOWN]:
        result = json.loads(line)
        print(f"  {result['custom_id']}: {result['response']['body']['choices'][0]['message']['content']!r}")


def show_gateway() -> None:
    """How to go on without Kubernetes."""
    secret = kubectl_json("-n", NAMESPACE, "get", "secret", "gateway-demo-key")["data"]
    print("\nthe same over OpenAI's Batch API, with the API key of the demo (docs/gateway.md):")
    print("  kubectl -n batchwright-system port-forward service/gateway 8080:80 &")
    print("  export OPENAI_BASE_URL=http://127.0.0.1:8080/v1")
    print(f"  export OPENAI_API_KEY={base64.b64decode(secret['key']).decode()}")
    print('  curl -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/models')


def show(command: str) -> None:
    print(f"\n$ {command}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
