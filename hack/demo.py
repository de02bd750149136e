#!/usr/bin/env python3
"""`make demo`: apply a BatchJob, watch it to its end, show the first results."""

import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack.quickstart import BUCKET, NAMESPACE, ROOT, kubectl, kubectl_command, kubectl_json, quickstart_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NAME = "quickstart"
MANIFEST = ROOT / "manifests" / "samples" / "quickstart.yaml"
REQUESTS = 5000
SHOWN = 3
PATIENCE_SECONDS = 600
TERMINAL = {"completed", "failed", "cancelled", "expired"}


def main() -> int:
    kubectl("-n", NAMESPACE, "delete", "batchjob", NAME, "--ignore-not-found", "--wait")
    with quickstart_s3() as s3:
        forget_earlier_results(s3)
        s3.put_object(Bucket=BUCKET, Key=f"in/{NAME}.jsonl", Body=sample_input())
    show("kubectl apply -f manifests/samples/quickstart.yaml")
    print(kubectl("apply", "-f", str(MANIFEST)), end="")
    show(f"kubectl -n {NAMESPACE} get batchjob {NAME} --watch")
    with watching():
        job = wait_for_the_end()
    show(f"kubectl -n {NAMESPACE} get batchjobs")
    print(kubectl("-n", NAMESPACE, "get", "batchjobs"), end="")
    if job["status"]["phase"] != "completed":
        print(job["status"].get("message", ""))
        return 1
    show_results(job["status"]["output"]["uri"])
    show_gateway()
    return 0


def forget_earlier_results(s3: "S3Client") -> None:
    """Otherwise a second demo would find its work done and end at once."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"out/{NAME}/"):
        for found in page.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=found["Key"])


def sample_input() -> bytes:
    """Requests whose answers can be checked by eye: the model server answers with the text backwards."""
    lines = []
    for number in range(1, REQUESTS + 1):
        body = {"model": "stub-model", "messages": [{"role": "user", "content": f"request {number}"}]}
        lines.append({"custom_id": f"demo-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Print the table's rows as they change."""
    process = subprocess.Popen(kubectl_command("-n", NAMESPACE, "get", "batchjob", NAME, "--watch"))
    try:
        yield
        time.sleep(1)  # the last row is on its way
    finally:
        process.terminate()
        process.wait(10)


def wait_for_the_end() -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        job = kubectl_json("-n", NAMESPACE, "get", "batchjob", NAME)
        if job.get("status", {}).get("phase") in TERMINAL:
            return job
        time.sleep(1)
    raise SystemExit(f"{NAME} did not end in {PATIENCE_SECONDS} s; `kubectl -n {NAMESPACE} describe batchjob {NAME}`")


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
    sys.exit(main())
