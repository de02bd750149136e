"""Record the work objects of an interrupted job and of a published one, as one version of Batchwright leaves them.

The README beside this file says how to call it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import batchwright
from fixtures.s3 import S3Server, s3_process
from stub.harness import StubProcess, stub_process

BUCKET: Final = "recorded"
CHAT: Final = "/v1/chat/completions"
LINES: Final = 16
WAIT_SECONDS: Final = 60.0
FINAL, PASSING = "status=400", "status=500,times=1"


def chat_line(number: int) -> dict[str, Any]:
    """Shards of four lines: the first has a line that fails for good, the last one that may succeed later."""
    switch = {1: FINAL, 14: PASSING}.get(number)
    metadata = {"id": f"id-{number}"} | ({"stub": switch} if switch else {})
    message = {"role": "user", "content": f"Say {number}."}
    body = {"model": "stub-model", "messages": [message], "metadata": metadata}
    return {"custom_id": f"id-{number}", "method": "POST", "url": CHAT, "body": body}


class Recording:
    """One job in a bucket, and the stages on it, each a process."""

    def __init__(self, server: S3Server, stub: StubProcess, folder: Path) -> None:
        self._s3 = server.client()
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ACCESS_KEY_ID": server.root.access_key,
            "AWS_SECRET_ACCESS_KEY": server.root.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            "BATCHWRIGHT_SEGMENT_SECONDS": "0.2",
        }
        spec = {
            "input": {"uri": f"s3://{BUCKET}/in/input.jsonl"},
            "output": {"uri": f"s3://{BUCKET}/out/"},
            "storage": {"endpointURL": server.endpoint_url},
            "sharding": {"linesPerShard": 4},
            "requests": {"maxConcurrency": 1, "retries": 0, "timeout": "20s"},
        }
        document = {"batchjob": {"metadata": {"name": "job"}, "spec": spec}, "serverUrl": stub.url}
        (folder / "job.json").write_text(json.dumps(document))
        self._s3.create_bucket(Bucket=BUCKET)
        lines = "".join(json.dumps(chat_line(number)) + "\n" for number in range(LINES))
        self._s3.put_object(Bucket=BUCKET, Key="in/input.jsonl", Body=lines.encode())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = ["--job", "job.json", "--spool", "spool", "--termination-log", "termination"]
        command = [sys.executable, "-m", "batchwright.worker.main", *options, *arguments]
        return subprocess.Popen(command, env=self._environment, cwd=self._folder)

    def plan(self) -> str:
        assert self.start("plan").wait(WAIT_SECONDS) == 0
        fingerprint = json.loads((self._folder / "termination").read_text())["fingerprint"]
        assert isinstance(fingerprint, str)
        return fingerprint

    def worker(self, fingerprint: str, index: int, workers: int) -> subprocess.Popen[bytes]:
        where = ["--fingerprint", fingerprint, "--index", str(index), "--workers", str(workers), "--port", "0"]
        return self.start("run", *where)

    def merge(self, fingerprint: str) -> None:
        assert self.start("merge", "--fingerprint", fingerprint, "--port", "0").wait(WAIT_SECONDS) == 0

    def objects(self) -> Mapping[str, bytes]:
        keys = [entry["Key"] for entry in self._s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]
        return {key: self._s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def wait_for(self, *parts: str) -> None:
        """Wait until the key of some object has each of these parts."""
        wait_until(lambda: all(any(part in key for key in self.objects()) for part in parts))


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "what was to be recorded didn't come about"
        time.sleep(0.02)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    process.wait(WAIT_SECONDS)


def interrupted(recording: Recording, stub: StubProcess) -> None:
    """A worker is killed twice, and then leaves in good order: every kind of work object there is."""
    fingerprint = recording.plan()
    stub.switch(delay="0.5")
    first = recording.worker(fingerprint, 0, 2)
    recording.wait_for("records/000000", "segments/000001/")
    end(first, signal.SIGKILL)
    second = recording.worker(fingerprint, 0, 2)
    recording.wait_for("segments/000001/opened")
    end(second, signal.SIGKILL)
    third = recording.worker(fingerprint, 0, 2)
    recording.wait_for("segments/000001/opened-000002")
    wait_until(lambda: sum("segments/000001/" in key and key.endswith(".jsonl") for key in recording.objects()) > 1)
    end(third, signal.SIGTERM)


def published(recording: Recording, stub: StubProcess) -> None:
    """All three stages, with a request that failed for good and one that may succeed later."""
    fingerprint = recording.plan()
    stub.switch(delay="0.05")
    assert recording.worker(fingerprint, 0, 1).wait(WAIT_SECONDS) == 0
    recording.merge(fingerprint)


def record(target: Path, run: Callable[[Recording, StubProcess], None]) -> None:
    with tempfile.TemporaryDirectory() as folder, stub_process(delay="0.05") as stub:
        (Path(folder) / "s3").mkdir()
        with s3_process(Path(folder) / "s3") as server:
            recording = Recording(server, stub, Path(folder))
            run(recording, stub)
            for key, data in recording.objects().items():
                path = target / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(f"recording what {batchwright.__file__} writes")
    record(folder / "interrupted", interrupted)
    record(folder / "published", published)
