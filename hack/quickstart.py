"""Reaching what `make quickstart` deployed from this machine: kubectl, and the S3 server through a port-forward."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = "batchwright-demo"
BUCKET = "batches"
_OWN_KUBECTL = ROOT / ".cluster" / "bin" / "kubectl"


def kubectl_command(*arguments: str) -> list[str]:
    """A kubectl command line for this checkout's cluster, or for the one that KUBECONFIG names."""
    program = str(_OWN_KUBECTL) if _OWN_KUBECTL.exists() else shutil.which("kubectl") or "kubectl"
    kubeconfig = os.environ.get("KUBECONFIG") or str(ROOT / ".cluster" / "kubeconfig")
    return [program, "--kubeconfig", kubeconfig, *arguments]


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl; gives what it printed.

    Raises:
        subprocess.CalledProcessError: it failed; its own message went to standard error.
    """
    return subprocess.run(
        kubectl_command(*arguments), input=stdin, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    ).stdout


def kubectl_json(*arguments: str) -> Any:
    """Run kubectl and read its JSON."""
    return json.loads(kubectl(*arguments, "-o", "json"))


@contextlib.contextmanager
def port_forward(target: str, port: int, namespace: str = NAMESPACE) -> Iterator[str]:
    """A tunnel to a target such as `service/s3`; gives `127.0.0.1:<free port>`."""
    command = kubectl_command("-n", namespace, "port-forward", target, f":{port}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", line)
        if found is None:
            raise RuntimeError(f"no tunnel to {target} in {namespace}: is `make quickstart` done?")
        yield found[0]
    finally:
        process.terminate()
        process.wait(10)


def quickstart_s3_keys() -> tuple[str, str]:
    """Access key and secret key of the quickstart's S3 server."""
    secret = kubectl_json("-n", NAMESPACE, "get", "secret", "s3-credentials")["data"]
    key, value = (base64.b64decode(secret[name]).decode() for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    return key, value


@contextlib.contextmanager
def quickstart_s3() -> Iterator["S3Client"]:
    """A client of the quickstart's S3 server."""
    key, value = quickstart_s3_keys()
    config = Config(
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    with port_forward("service/s3", 7070) as address:
        yield boto3.client(
            "s3",
            endpoint_url=f"http://{address}",
            aws_access_key_id=key,
            aws_secret_access_key=value,
            region_name="us-east-1",
            config=config,
        )
