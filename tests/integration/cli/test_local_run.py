"""`batchwright run` as a person types it: a process, a manifest, a model server, a folder or a bucket."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.s3 import S3Bucket
from fixtures.worker import chat_line, chat_lines, ids, jsonl, parsed
from stub.harness import StubProcess

PROGRAM = str(Path(sys.executable).parent / "batchwright")
WAIT_SECONDS = 120


def manifest(folder: Path, **spec: Any) -> Path:
    """A BatchJob in a file, over a folder unless `spec` says otherwise."""
    job = {
        "apiVersion": "batchwright.dev/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": "local"},
        "spec": {"input": {"uri": f"file://{folder}/in.jsonl"}, "output": {"uri": f"file://{folder}/out/"}} | spec,
    }
    path = folder / "batchjob.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def batchwright(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_results_are_published_and_counted(tmp_path: Path, stub: StubProcess) -> None:
    lines = [*chat_lines(20), chat_line("bad", "status=400")]
    (tmp_path / "in.jsonl").write_bytes(jsonl(lines))
    done = batchwright("run", manifest(tmp_path), "--server", stub.url)
    assert done.returncode == 0, done.stdout
    assert "20 of 21 requests, 1 failed" in done.stdout
    assert "400: 1" in done.stdout
    out = tmp_path / "out" / "local"
    assert f"file://{out}/results.jsonl" in done.stdout
    assert ids(parsed((out / "results.jsonl").read_bytes())) == ids(lines[:-1])
    assert ids(parsed((out / "errors.jsonl").read_bytes())) == ["bad"]
    assert parsed((out / "retry.jsonl").read_bytes()) == [lines[-1]]


def test_the_manifest_of_a_cluster_runs_against_another_endpoint(
    tmp_path: Path, stub: StubProcess, s3_bucket: S3Bucket
) -> None:
    s3_bucket.put("in.jsonl", jsonl(chat_lines(5)))
    path = manifest(
        tmp_path,
        input={"uri": f"s3://{s3_bucket.name}/in.jsonl"},
        output={"uri": f"s3://{s3_bucket.name}/out/"},
        server={"service": {"name": "vllm"}},
        storage={"endpointURL": "http://s3.in-cluster:7070", "credentialsSecretRef": {"name": "s3-credentials"}},
    )
    root = s3_bucket.server.root
    credentials = {"AWS_ACCESS_KEY_ID": root.access_key, "AWS_SECRET_ACCESS_KEY": root.secret_key}
    done = batchwright(
        "run", path, "--server", stub.url, "--endpoint-url", s3_bucket.server.endpoint_url, environment=credentials
    )
    assert done.returncode == 0, done.stdout
    body = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="out/local/results.jsonl")["Body"].read()
    assert len(parsed(body)) == 5


def test_a_folder_a_progress_object_and_limits(tmp_path: Path, stub: StubProcess) -> None:
    (tmp_path / "in.jsonl").write_bytes(jsonl(chat_lines(5)))
    output = {"uri": f"file://{tmp_path}/out/", "folder": "in_stub-model_1", "names": {"progress": "in.progress.json"}}
    done = batchwright("run", manifest(tmp_path, output=output), "--server", stub.url)
    assert done.returncode == 0, done.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["in_stub-model_1"]
    progress = json.loads((tmp_path / "out" / "in_stub-model_1" / "in.progress.json").read_bytes())
    assert progress["lines_processed"] == progress["metrics"]["num_responses"] == 5
    assert progress["metrics"]["response_time"] > 0

    limited = {"uri": f"file://{tmp_path}/in.jsonl", "limits": {"lines": 4}}
    refused = batchwright("run", manifest(tmp_path, input=limited, output=output), "--server", stub.url)
    assert refused.returncode == 1
    assert "too_many_tasks: The input file has 5 requests; the limit is 4." in refused.stdout


def test_interrupted_it_goes_on_where_it_stopped(tmp_path: Path, stub: StubProcess) -> None:
    lines = chat_lines(300)
    (tmp_path / "in.jsonl").write_bytes(jsonl(lines))
    path = manifest(tmp_path, requests={"maxConcurrency": 4})
    process = subprocess.Popen(
        [PROGRAM, "run", str(path), "--server", stub.url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while stub.stats().total < 40 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, output
    assert "goes on where it stopped" in output

    done = batchwright("run", path, "--server", stub.url)
    assert done.returncode == 0, done.stdout
    assert ids(parsed((tmp_path / "out" / "local" / "results.jsonl").read_bytes())) == ids(lines)
    assert stub.arrivals().answered == {line["custom_id"]: 1 for line in lines}


def test_an_invalid_input_fails_with_its_lines_and_no_request_is_sent(tmp_path: Path, stub: StubProcess) -> None:
    (tmp_path / "in.jsonl").write_bytes(jsonl([chat_line("a"), chat_line("a")]))
    done = batchwright("run", manifest(tmp_path), "--server", stub.url)
    assert done.returncode == 1
    assert "InvalidInput" in done.stdout
    assert "line 2: duplicate_custom_id" in done.stdout
    assert stub.arrivals().total == 0


@pytest.mark.parametrize(("count", "stopped"), [(400, True), (8, False)])
def test_more_failures_than_allowed_stop_it_and_what_is_finished_is_published(
    tmp_path: Path, stub: StubProcess, count: int, stopped: bool
) -> None:
    lines = [chat_line(f"line-{n}", "delay=0.1,status=400" if n % 2 else "delay=0.1") for n in range(count)]
    (tmp_path / "in.jsonl").write_bytes(jsonl(lines))
    requests = {"maxFailures": 10, "maxConcurrency": 4, "concurrency": "Fixed"}
    done = batchwright("run", manifest(tmp_path, requests=requests), "--server", stub.url)
    assert done.returncode == (1 if stopped else 0), done.stdout
    assert ("spec.requests.maxFailures (10)" in done.stdout) is stopped
    out = tmp_path / "out" / "local"
    results, errors = (parsed((out / name).read_bytes()) for name in ("results.jsonl", "errors.jsonl"))
    assert sorted(ids(results) + ids(errors)) == sorted(ids(lines))
    undone = [line for line in errors if line["error"] and line["error"]["code"] == "batch_failed"]
    assert bool(undone) is stopped


def test_run_again_it_sends_what_may_succeed_now(tmp_path: Path, stub: StubProcess) -> None:
    lines = [*chat_lines(20), chat_line("bad", "status=400"), chat_line("late", "status=500,times=1")]
    (tmp_path / "in.jsonl").write_bytes(jsonl(lines))
    path = manifest(tmp_path, requests={"retries": 0})
    first, second, third = (batchwright("run", path, "--server", stub.url) for _ in range(3))
    assert "stand from an earlier run" not in first.stdout
    assert "20 of 22 requests, 2 failed" in first.stdout
    assert "21 of 22 requests stand from an earlier run" in second.stdout
    assert "22/22 requests in" in second.stdout
    assert "22 of 22 requests stand from an earlier run" in third.stdout
    for done in (second, third):
        assert done.returncode == 0
        assert "21 of 22 requests, 1 failed" in done.stdout
    assert stub.arrivals().arrived == dict.fromkeys(ids(lines), 1) | {"late": 2}


def test_resume_never_starts_anew(tmp_path: Path, stub: StubProcess) -> None:
    (tmp_path / "in.jsonl").write_bytes(jsonl(chat_lines(3)))
    path = manifest(tmp_path, resume="Never")
    for _ in range(2):
        assert batchwright("run", path, "--server", stub.url).returncode == 0
    assert set(stub.arrivals().arrived.values()) == {2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("a: [", "is not YAML"),
        ("kind: Deployment", "holds 0 BatchJobs"),
        (
            json.dumps({"kind": "BatchJob", "metadata": {"name": "x"}, "spec": {"output": {"uri": "s3://bbb/o/"}}}),
            "spec.input: Field required",
        ),
    ],
    ids=["no file", "no YAML", "no BatchJob", "no input"],
)
def test_a_manifest_that_cannot_be_used_is_wrong_usage(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "batchjob.yaml"
    if text is not None:
        path.write_text(text)
    done = batchwright("run", path)
    assert done.returncode == 2
    assert words in done.stdout


def test_without_a_server_it_says_what_to_give(tmp_path: Path) -> None:
    done = batchwright("run", manifest(tmp_path))
    assert done.returncode == 2
    assert "--server" in done.stdout
