"""`batchwright run` against the real server, from a bucket into a bucket."""

import os
import subprocess
import sys
from pathlib import Path

import yaml
from hack.vllm.serving import VllmServer

from fixtures.s3 import S3Bucket
from fixtures.worker import bucket_place, ids, jsonl, parsed
from vllm.batches.lines import lines

PROGRAM = Path(sys.executable).parent / "batchwright"
WAIT_SECONDS = 300


def test_results_are_published_and_counted(vllm: VllmServer, s3_bucket: S3Bucket, tmp_path: Path) -> None:
    place = bucket_place(s3_bucket, s3_bucket.server.endpoint_url)
    wanted = lines(40, ignore_eos=True)
    place.put(place.input_uri, jsonl(wanted))
    job = {
        "apiVersion": "batchwright.dev/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": "local"},
        "spec": {
            "input": {"uri": place.input_uri},
            "output": {"uri": place.output_uri},
            "server": {"url": vllm.url},
            "storage": dict(place.storage or {}),
        },
    }
    manifest = tmp_path / "batchjob.yaml"
    manifest.write_text(yaml.safe_dump(job))
    done = subprocess.run(
        [PROGRAM, "run", manifest],
        env={**os.environ, **place.environment, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "completed: 40 of 40 requests, 0 failed" in done.stdout
    assert "320 out" in done.stdout
    assert ids(parsed(place.get(f"{place.output_uri}local/results.jsonl"))) == ids(wanted)
