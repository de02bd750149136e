"""Clients that were written for OpenAI's Batch API, unchanged, against the gateway on a real cluster.

The official SDK; a shell script of curl, grep and cut; LiteLLM; LangChain by langasync; and what the manual says to
type. All but the SDK are programs that begin together, and are looked at when they are needed.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest

from e2e.conftest import fresh_quickstart
from e2e.gateway import Access, gateway_access, wait_status
from e2e.gateway_manual import session
from e2e.quickstart import BUCKET, CHAT, NAMESPACE, Quickstart, chat_line, jsonl
from fixtures.cluster import ROOT, Cluster

MODEL = "stub-model"
PYTHON = ROOT / ".conformance" / "bin" / "python"
CLIENTS = ROOT / "tests" / "conformance"
SCRIPT = ROOT / "docs" / "examples" / "batch.sh"
PATIENCE_SECONDS = 300
LINES = [chat_line("a", text="abc"), chat_line("refused", stub="status=400"), chat_line("b", text="xyz")]
ANSWERS = {"a": "cba", "b": "zyx"}
"""The model server answers with the text backwards."""
SLOW = [chat_line(f"slow-{number}", stub="delay=3") for number in range(1000)]
"""One shard: too much for its worker to finish before a cancel comes."""


@pytest.fixture(scope="module")
def quickstart(cluster: Cluster, quickstart_bucket: Any) -> Iterator[Quickstart]:
    """One for all tests of the file: their batches go on beside each other."""
    with fresh_quickstart(cluster, quickstart_bucket) as view:
        yield view


@pytest.fixture(scope="module")
def access(quickstart: Quickstart) -> Iterator[Access]:
    with gateway_access() as reached:
        yield reached


@dataclass
class Programs:
    """Programs that run beside each other."""

    access: Access
    cluster: Cluster
    folder: Path
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, name: str, *command: str | Path) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        folders = (Path(sys.executable).parent, Path(self.cluster.kubectl_program).parent)
        environment |= {
            "GATEWAY": self.access.url,
            "API_KEY": self.access.key,
            "INTERVAL": "1",
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        }
        self.running[name] = subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def output(self, name: str) -> str:
        """What one printed, once it has ended well."""
        printed, errors = self.running[name].communicate(timeout=PATIENCE_SECONDS)
        assert self.running[name].returncode == 0, f"{name}:\n{printed}\n{errors}"
        return printed

    def stop(self) -> None:
        """End those that still run, with what they started."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=10)


@pytest.fixture(scope="module", autouse=True)
def programs(access: Access, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """The script, the other projects' clients and the manual's session, at work."""
    assert PYTHON.exists(), "run `make .conformance/.installed`"
    folder = tmp_path_factory.mktemp("clients")
    (folder / "input.jsonl").write_bytes(jsonl(LINES))
    (folder / "slow.jsonl").write_bytes(jsonl(SLOW))
    (folder / "docs").symlink_to(ROOT / "docs")
    begun = Programs(access, cluster, folder)
    begun.start("script", SCRIPT, "input.jsonl", "script.jsonl")
    begun.start(
        "litellm", PYTHON, CLIENTS / "litellm_client.py", access.base_url, access.key, "input.jsonl", "slow.jsonl"
    )
    begun.start(
        "langchain", PYTHON, CLIENTS / "langchain_client.py", access.base_url, access.key, MODEL, folder / "jobs"
    )
    begun.start("manual", "bash", "-c", session())
    try:
        yield begun
    finally:
        begun.stop()


@pytest.fixture(scope="module")
def sdk(access: Access) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=access.base_url, api_key=access.key) as client:
        yield client


def answers(lines: bytes) -> dict[str, str]:
    """The answers of a results file by id, in its order."""
    return {
        line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
        for line in map(json.loads, lines.splitlines())
    }


def created(sdk: openai.OpenAI, lines: bytes, **parameters: Any) -> openai.types.Batch:
    upload = sdk.files.create(file=("requests.jsonl", lines), purpose="batch")
    return sdk.batches.create(input_file_id=upload.id, endpoint=CHAT, completion_window="24h", **parameters)


@pytest.fixture(scope="module", autouse=True)
def batches(sdk: openai.OpenAI, programs: Programs) -> dict[str, openai.types.Batch]:
    """The SDK's batches, as they were answered at their creation. They begin with the programs."""
    return {
        "mixed": created(sdk, jsonl(LINES), metadata={"team": "e2e"}),
        "slow": created(sdk, jsonl(SLOW)),
        "invalid": created(sdk, b'{"custom_id": "a"}\nno JSON\n'),
    }


def end_of(sdk: openai.OpenAI, batch: openai.types.Batch) -> openai.types.Batch:
    return wait_status(lambda: sdk.batches.retrieve(batch.id), lambda one: one.status)


def test_the_official_sdk_uploads_a_file_and_reads_it_again(sdk: openai.OpenAI) -> None:
    upload = sdk.files.create(file=("requests.jsonl", jsonl(LINES)), purpose="batch")
    assert sdk.files.wait_for_processing(upload.id, max_wait_seconds=10).status == "processed"
    assert sdk.files.content(upload.id).content == jsonl(LINES)
    assert upload.id in [one.id for one in sdk.files.list(purpose="batch", limit=20)]
    assert sdk.files.delete(upload.id).deleted


def test_the_official_sdk_cancels(sdk: openai.OpenAI, batches: dict[str, openai.types.Batch]) -> None:
    batch = batches["slow"]
    wait_status(lambda: sdk.batches.retrieve(batch.id), lambda one: one.status, "in_progress")

    assert sdk.batches.cancel(batch.id).status == "cancelling"
    assert sdk.batches.cancel(batch.id).status in ("cancelling", "cancelled")

    # What is in flight is waited for, and kept.
    ended = end_of(sdk, batch)
    assert ended.status == "cancelled"
    finished = lines_of(sdk, ended.output_file_id)
    others = lines_of(sdk, ended.error_file_id)
    assert {line["error"]["code"] for line in others} == {"batch_cancelled"}
    assert sorted(line["custom_id"] for line in finished + others) == sorted(line["custom_id"] for line in SLOW)
    assert ended.request_counts is not None
    assert ended.request_counts.completed == len(finished)


def lines_of(sdk: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    """The lines of a file; none where there is no file."""
    return [json.loads(line) for line in sdk.files.content(file_id).content.splitlines()] if file_id else []


def test_the_official_sdk_runs_a_batch_and_downloads_its_results(
    sdk: openai.OpenAI, batches: dict[str, openai.types.Batch], quickstart: Quickstart
) -> None:
    batch = batches["mixed"]
    assert batch.status == "validating"
    newest = itertools.islice(sdk.batches.list(limit=4), 40)  # page after page
    assert {one.id for one in batches.values()} <= {one.id for one in newest}

    ended = end_of(sdk, batch)

    assert ended.status == "completed"
    assert ended.metadata == {"team": "e2e"}
    assert ended.request_counts is not None
    assert ended.request_counts.model_dump() == {"total": 3, "completed": 2, "failed": 1}
    assert ended.output_file_id is not None
    assert list(answers(sdk.files.content(ended.output_file_id).content).items()) == list(ANSWERS.items())
    (error,) = lines_of(sdk, ended.error_file_id)
    assert (error["custom_id"], error["response"]["status_code"]) == ("refused", 400)
    assert sdk.files.retrieve(ended.output_file_id).purpose == "batch_output"
    _ran_with_the_tenants_keys(quickstart, batch)


def _ran_with_the_tenants_keys(quickstart: Quickstart, batch: openai.types.Batch) -> None:
    job = quickstart.get(f"batch-{batch.id.removeprefix('batch_')}")
    assert job["spec"]["input"]["uri"] == f"s3://{BUCKET}/gateway/{NAMESPACE}/{batch.input_file_id}"
    assert job["spec"]["storage"]["credentialsSecretRef"] == {"name": "batchwright-storage"}
    selector = f"--selector=batchwright.dev/batchjob-uid={job['metadata']['uid']}"
    pods = json.loads(quickstart.kubectl("get", "pods", selector, "-o", "json"))["items"]
    sources = [source for pod in pods for volume in pod["spec"]["volumes"] for source in _sources(volume)]
    assert {source["secret"]["name"] for source in sources if "secret" in source} == {"batchwright-storage"}


def _sources(volume: dict[str, Any]) -> list[dict[str, Any]]:
    return volume.get("projected", {}).get("sources") or [volume]


def test_the_official_sdk_learns_why_a_file_is_refused(
    sdk: openai.OpenAI, batches: dict[str, openai.types.Batch]
) -> None:
    ended = end_of(sdk, batches["invalid"])
    assert ended.status == "failed"
    assert ended.errors is not None
    found = [(error.code, error.line) for error in ended.errors.data or ()]
    assert ("missing_required_parameter", 1) in found
    assert ("invalid_json_line", 2) in found


def test_a_script_of_curl_grep_and_cut_runs_a_batch(programs: Programs) -> None:
    printed = programs.output("script")
    assert printed.splitlines()[-1].endswith(" completed")
    assert answers((programs.folder / "script.jsonl").read_bytes()) == ANSWERS
    (error,) = (programs.folder / "script.jsonl.errors").read_text().splitlines()
    assert json.loads(error)["custom_id"] == "refused"


def test_litellm_runs_a_batch_and_cancels_one(programs: Programs) -> None:
    told = json.loads(programs.output("litellm"))
    assert told | {"id": "", "bytes": 0} == {
        "id": "",
        "status": "completed",
        "metadata": {"client": "litellm"},
        "counts": {"total": 3, "completed": 2, "failed": 1},
        "listed": True,
        "answers": ANSWERS,
        "bytes": 0,
        "cancelled": "cancelled",
    }
    assert told["bytes"] > 0


def test_a_langchain_chain_runs_as_a_batch_and_is_cancelled(programs: Programs) -> None:
    told: Mapping[str, Any] = json.loads(programs.output("langchain").splitlines()[-1])
    assert dict(told) | {"id": ""} == {
        "id": "",
        "status": "completed",
        "counts": {"total": 3, "completed": 3, "failed": 0},
        "answers": {"one": "eno yas", "two": "owt yas", "three": "eerht yas"},
        "cancelled": True,
    }


def test_what_the_manual_says_to_type_works(programs: Programs) -> None:
    printed = programs.output("manual")
    assert "completed BatchRequestCounts(completed=2, failed=0, total=2)" in printed
    assert len((programs.folder / "results.jsonl").read_text().splitlines()) == 2
