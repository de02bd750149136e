"""Path-based batches on a volume that two tenants share."""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from e2e.path_world import PathWorld, path_world
from e2e.quickstart import Quickstart, chat_line
from fixtures.cluster import Cluster, eventually


@pytest.fixture(scope="module")
def world(cluster: Cluster, quickstart_bucket: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PathWorld]:
    """The bucket is asked for only to fail early where there is no quickstart."""
    with path_world(cluster, tmp_path_factory.mktemp("paths")) as world:
        yield world


def test_a_run_leaves_results_errors_and_a_progress_file_that_was_current(
    world: PathWorld, quickstart: Quickstart
) -> None:
    volume, alice, bob = world.volume, world.alice, world.bob
    # Some last in each part of the input, so that the one that writes the progress is still there when it is looked at.
    stubs = ["status=400" if n % 50 == 0 else "delay=12" if n % 40 == 39 else "delay=0.1" for n in range(200)]
    lines = [chat_line(f"r-{n}", stub=stub) for n, stub in enumerate(stubs)]
    batch_id = alice.create(volume.put(f"{alice.root}/prompts.jsonl", lines))

    folder = f"{alice.root}/batch-results/prompts_stub-model_{batch_id}"
    progress = eventually(lambda: _progress(world, folder), seconds=120)
    assert alice.status(batch_id) == "running"
    assert 0 < progress["lines_processed"] < 200
    assert 0 < progress["num_responses_so_far"] <= progress["lines_processed"]
    assert progress["total_tokens_so_far"] > 0
    early = alice.http.get(f"/resource_server/v1/batches/{batch_id}/result")
    assert (early.status_code, early.json()["error"]["code"]) == (400, "batch_not_completed")

    result = alice.wait(batch_id, "completed")
    name = PurePosixPath(result["results_file"]).name
    assert re.fullmatch(r"prompts_\d{8}_\d{6}\.results\.jsonl", name)
    assert result["results_file"] == f"{folder}/{name}"
    assert result["progress_file"] == f"{folder}/{name.replace('.results.jsonl', '.progress.json')}"
    assert result["errors_file"] == f"{folder}/{name.replace('.results.jsonl', '.errors.jsonl')}"
    assert [line["custom_id"] for line in volume.lines(result["results_file"])] == [
        f"r-{n}" for n in range(200) if n % 50
    ]
    assert [line["custom_id"] for line in volume.lines(result["errors_file"])] == ["r-0", "r-50", "r-100", "r-150"]
    metrics = result["metrics"]
    assert (metrics["lines_processed"], metrics["num_responses"]) == (200, 196)
    assert metrics["total_tokens"] > 0
    assert metrics["throughput_tokens_per_second"] == pytest.approx(
        metrics["total_tokens"] / metrics["response_time"], rel=0.01
    )
    final = json.loads(volume.read(result["progress_file"]))
    assert final["metrics"] == pytest.approx(metrics, rel=0.01)

    [listed] = alice.http.get("/resource_server/v1/batches", params={"status": "completed"}).json()
    assert (listed["batch_id"], listed["input_file"]) == (batch_id, f"{alice.root}/prompts.jsonl")
    assert bob.http.get("/resource_server/v1/batches").json() == []
    assert bob.http.get(f"/resource_server/v1/batches/{batch_id}").status_code == 404


def test_links_out_of_a_tenants_part_lead_nowhere(world: PathWorld, quickstart: Quickstart) -> None:
    volume, alice, bob = world.volume, world.alice, world.bob
    volume.put(f"{bob.root}/in.jsonl", [chat_line("secret-of-bob")])
    volume.put(f"{alice.root}/own.jsonl", [chat_line("own-1")])
    volume.run(
        f"cd tenants/{alice.namespace} && ln -s ../{bob.namespace}/in.jsonl relative.jsonl"
        f" && ln -s {bob.root}/in.jsonl absolute.jsonl && ln -s ../{bob.namespace} folder"
    )
    before = [file for file in volume.files() if file.startswith(f"./tenants/{bob.namespace}/")]

    inputs = ("relative.jsonl", "absolute.jsonl", "folder/in.jsonl")
    reading = [alice.create(f"{alice.root}/{name}") for name in inputs]
    writing = alice.create(f"{alice.root}/own.jsonl", output_folder_path=f"{alice.root}/folder")

    for batch_id in reading:
        message = alice.wait(batch_id, "failed")
        assert message.startswith("The batch failed")
        assert alice.root in message, "it names the input that can't be read"
        assert "secret-of-bob" not in message
    assert "secret-of-bob" not in quickstart.arrivals()
    stopped = alice.http.post(f"/resource_server/v1/batches/{writing}/cancel")
    assert stopped.status_code in (200, 409)
    alice.wait(writing, "failed")
    assert [file for file in volume.files() if file.startswith(f"./tenants/{bob.namespace}/")] == before


def test_a_cancel_keeps_what_is_finished(world: PathWorld, quickstart: Quickstart) -> None:
    volume, alice = world.volume, world.alice
    lines = [chat_line(f"c-{n}", stub="delay=1") for n in range(200)]
    batch_id = alice.create(volume.put(f"{alice.root}/long.jsonl", lines), output_folder_path=f"{alice.root}/mine/")
    quickstart.wait_arrivals(20)
    cancelled = alice.http.post(f"/resource_server/v1/batches/{batch_id}/cancel").raise_for_status().json()
    assert cancelled["batch_id"] == batch_id
    assert cancelled["output_folder_path"] == f"{alice.root}/mine"
    assert cancelled["status"] == "running"

    message = alice.wait(batch_id, "failed")
    found = re.fullmatch(r"The batch was cancelled: .* (\d+) of 200 lines were answered; they are in (\S+)\.", message)
    assert found is not None, message
    answered = volume.lines(found[2])
    assert 0 < len(answered) == int(found[1]) < 200
    undone = volume.lines(found[2].replace(".results.jsonl", ".errors.jsonl"))
    assert len(answered) + len(undone) == 200
    assert {line["error"]["code"] for line in undone} == {"batch_cancelled"}
    ids = {line["custom_id"] for line in [*answered, *undone]}
    assert ids == {line["custom_id"] for line in lines}


def test_shared_roots_are_read_and_never_written(world: PathWorld, quickstart: Quickstart) -> None:
    volume, bob = world.volume, world.bob
    shared = volume.put("/data/public/shared.jsonl", [chat_line(f"s-{n}") for n in range(3)])
    mixed = volume.put(f"{bob.root}/mixed.jsonl", [chat_line("m-1"), chat_line("m-2", model="other-model")])
    good, bad = bob.create(shared), bob.create(mixed)

    answered = volume.lines(bob.wait(good, "completed")["results_file"])
    assert [line["custom_id"] for line in answered] == ["s-0", "s-1", "s-2"]
    message = bob.wait(bad, "failed")
    assert message.startswith("The batch failed: line 2: ")
    assert "m-1" not in quickstart.arrivals()
    refused = bob.http.post(
        "/resource_server/local/vllm/v1/batches",
        json={"model": "stub-model", "input_file": shared, "output_folder_path": "/data/public/out"},
    )
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "output_folder_path")
    assert volume.run("ls public").split() == ["shared.jsonl"]


def _progress(world: PathWorld, folder: str) -> dict[str, Any]:
    """The progress file once it tells of work."""
    names = world.volume.run(f"cat {folder.removeprefix('/data/')}/*.progress.json 2>/dev/null || true")
    assert names.strip(), "there is no progress file yet"
    found: dict[str, Any] = json.loads(names)
    assert found["lines_processed"] > 0
    return found
