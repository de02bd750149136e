"""The path-based routes on real sockets, over records in a folder and the API server of the tests."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright.api import names
from batchwright.api.batchjob import BatchJob
from fixtures.gateway import ADMIN, BOB
from fixtures.kubernetes_http import Answer
from fixtures.path_routes import ASKED, BATCHES, CATALOGUE, CREATE, DONE, INPUT, VOLUME, World, error_of, world_with


def test_a_batch_is_created_for_a_path(busy_world: World) -> None:
    answer = busy_world.send("POST", CREATE, json=ASKED)
    batch_id = answer.json()["batch_id"]
    assert answer.json() == {
        "batch_id": batch_id,
        "input_file": INPUT,
        "output_folder_path": "/data/tenants/team-a/batch-results",
        "status": "pending",
    }
    batchjob = busy_world.batchjob(batch_id)
    assert batchjob["metadata"]["labels"] == {names.LABEL_GATEWAY: "paths"}
    spec = batchjob["spec"]
    assert spec["model"] == "meta/llama"
    assert "endpoint" not in spec, "it comes from the lines"
    assert spec["input"] == {"uri": f"file://{INPUT}", "limits": {"lines": 150_000}}
    assert spec["output"]["uri"] == "file:///data/tenants/team-a/batch-results/"
    assert spec["output"]["folder"] == f"prompts_llama_{batch_id}"
    stamp = re.fullmatch(r"prompts_(\d{8}_\d{6})\.results\.jsonl", spec["output"]["names"]["results"])
    assert stamp is not None
    assert spec["output"]["names"]["progress"] == f"prompts_{stamp[1]}.progress.json"
    assert spec["output"]["names"]["errors"] == f"prompts_{stamp[1]}.errors.jsonl"
    assert spec["server"] == {"url": "http://default:8000"}
    BatchJob.model_validate(batchjob)


def test_its_workers_mount_the_tenants_part_and_the_shared_roots_alone(busy_world: World) -> None:
    worker = busy_world.batchjob(busy_world.create())["spec"]["worker"]
    [volume] = worker["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}
    assert [(mount["mountPath"], mount["subPath"], mount.get("readOnly")) for mount in worker["volumeMounts"]] == [
        ("/data/tenants/team-a", "tenants/team-a", None),
        ("/data/public", "public", True),
    ]


def test_an_output_folder_of_ones_own_is_used(busy_world: World) -> None:
    answer = busy_world.send("POST", CREATE, json=ASKED | {"output_folder_path": "file:///data/tenants/team-a/out/"})
    assert answer.json()["output_folder_path"] == "/data/tenants/team-a/out"
    output = busy_world.batchjob(answer.json()["batch_id"])["spec"]["output"]
    assert output["uri"] == "file:///data/tenants/team-a/out/"


def test_an_object_gives_uris(tmp_path: Path) -> None:
    with world_with(tmp_path) as world:
        batch_id = world.create(input_file="s3://inputs/a/prompts.jsonl", output_folder_path="s3://outputs/a/")
        world.set_status(batch_id, **DONE)
        result = world.get(f"{BATCHES}/{batch_id}/result").json()
        spec = world.batchjob(batch_id)["spec"]
    assert (spec["input"]["uri"], spec["output"]["uri"]) == ("s3://inputs/a/prompts.jsonl", "s3://outputs/a/")
    assert result["results_file"].startswith(f"s3://outputs/a/prompts_llama_{batch_id}/prompts_")


def test_a_tenants_own_limits_reach_the_batchjob(tmp_path: Path) -> None:
    tenants = {"team-a": {"limits": {"paths": {"lines": 7, "bytes": 1000}}}}
    with world_with(tmp_path, sharedVolume=VOLUME, tenants=tenants) as world:
        limits = world.batchjob(world.create())["spec"]["input"]["limits"]
        others = world.create(BOB, input_file="/data/tenants/team-b/in.jsonl")
        assert limits == {"lines": 7, "bytes": 1000}
        assert world.batchjob(others, "team-b")["spec"]["input"]["limits"] == {"lines": 150_000}


@pytest.mark.parametrize(
    ("changes", "code", "param", "text"),
    [
        ({"temperature": 1}, "unknown_parameter", "temperature", "Unknown parameter: 'temperature'."),
        ({"model": None}, "invalid_type", "model", "expected a string"),
        ({"model": ""}, "invalid_value", "model", "at least 1 character"),
        ({"input_file": 7}, "invalid_type", "input_file", "expected a string"),
        ({"input_file": "/data/tenants/team-b/in.jsonl"}, "invalid_value", "input_file", "must be a path under"),
        ({"input_file": "/data/tenants/team-a/../team-b/x"}, "invalid_value", "input_file", "no '.', '..'"),
        ({"output_folder_path": "/data/public"}, "invalid_value", "output_folder_path", "must be a path under"),
        ({"output_folder_path": "/data/tenants/team-b"}, "invalid_value", "output_folder_path", "must be a path"),
    ],
)
def test_what_cannot_be_is_refused(
    busy_world: World, changes: dict[str, Any], code: str, param: str, text: str
) -> None:
    before = len(busy_world.api.under("batchjobs"))
    status, *found, message = error_of(busy_world.send("POST", CREATE, json=ASKED | changes))
    assert (status, *found) == (400, code, param)
    assert text in message
    assert len(busy_world.api.under("batchjobs")) == before


@pytest.mark.parametrize("field", ["model", "input_file"])
def test_what_is_missing_is_named(busy_world: World, field: str) -> None:
    asked = {name: value for name, value in ASKED.items() if name != field}
    answer = busy_world.send("POST", CREATE, json=asked)
    assert error_of(answer)[:3] == (400, "missing_required_parameter", field)


def test_a_body_without_a_content_type_is_taken_as_json(busy_world: World) -> None:
    answer = busy_world.send("POST", CREATE, content=json.dumps(ASKED).encode())
    assert answer.json()["status"] == "pending"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"x"', b'{"model":"\\ud83d","input_file":"/data/tenants/team-a/in"}']
)
def test_a_body_that_is_none_is_refused(busy_world: World, content: bytes) -> None:
    answer = busy_world.send("POST", CREATE, content=content, headers={"content-type": "application/json"})
    assert error_of(answer)[0] == 400


@pytest.mark.parametrize(
    ("path", "model", "status", "text"),
    [
        ("/resource_server/aurora/vllm/v1/batches", "meta/llama", 400, "Unknown cluster 'aurora'. Clusters"),
        ("/resource_server/polaris/sglang/v1/batches", "meta/llama", 400, "take batches: 'vllm'."),
        ("/resource_server/polaris/vllm/v1/batches", "shy", 400, "takes no batches. Models that take batches"),
        ("/resource_server/polaris/vllm/v1/batches", "embedder", 400, "It takes batches at: 'sophia/infinity'."),
        ("/resource_server/polaris/vllm/v1/batches", "gpt", 404, "Models that take batches: 'meta/llama', 'talker'."),
    ],
)
def test_a_place_or_model_without_batches_is_refused_naming_those_that_work(
    tmp_path: Path, path: str, model: str, status: int, text: str
) -> None:
    with world_with(tmp_path, CATALOGUE, sharedVolume=VOLUME) as world:
        answered = error_of(world.send("POST", path, json=ASKED | {"model": model}))
    assert answered[0] == status
    assert text in answered[3]


def test_the_catalogue_says_which_server(tmp_path: Path) -> None:
    with world_with(tmp_path, CATALOGUE, sharedVolume=VOLUME) as world:
        llama = world.create(path="/resource_server/polaris/vllm/v1/batches")
        embedder = world.create(path="/resource_server/sophia/infinity/v1/batches", model="embedder")
        first, second = (world.batchjob(batch_id)["spec"] for batch_id in (llama, embedder))
        listed = {batch["batch_id"]: (batch["cluster"], batch["framework"]) for batch in world.get(BATCHES).json()}
    assert (first["server"]["url"], first.get("endpoint")) == ("http://llama:8000", None)
    assert (second["server"]["url"], second["endpoint"]) == ("http://embedder:8000", "/v1/embeddings")
    assert listed == {llama: ("polaris", "vllm"), embedder: ("sophia", "infinity")}


def test_a_line_may_name_what_the_model_serves_and_nothing_else(tmp_path: Path) -> None:
    tenants = {"team-a": {"limits": {"paths": {"bytes": 7}}}}
    path = "/resource_server/polaris/vllm/v1/batches"
    with world_with(tmp_path, CATALOGUE, sharedVolume=VOLUME, tenants=tenants) as world:
        some, all_of_them = (
            world.batchjob(world.create(path=path, model=model))["spec"] for model in ("talker", "meta/llama")
        )
    assert "endpoint" not in some
    assert some["input"]["limits"] == {
        "lines": 150_000,
        "bytes": 7,
        "endpoints": ["/v1/chat/completions", "/v1/completions"],
    }
    assert BatchJob.model_validate({"metadata": {"name": "x"}, "spec": some}).spec.endpoint is None
    assert all_of_them["input"]["limits"] == {"lines": 150_000, "bytes": 7}


def test_a_batch_that_the_cluster_refuses_leaves_nothing(world: World) -> None:
    world.api.fail("POST", "batchjobs", Answer(403, "Forbidden", 'batchjobs "x" is forbidden: exceeded quota: batches'))
    status, code, _, message = error_of(world.send("POST", CREATE, json=ASKED))
    assert (status, code) == (400, "cluster_refused")
    assert "exceeded quota" in message
    assert world.get(BATCHES).json() == []


@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        (None, b'"pending"'),
        ("pending", b'"pending"'),
        ("validating", b'"pending"'),
        ("in_progress", b'"running"'),
        ("finalizing", b'"running"'),
        ("cancelling", b'"running"'),
        ("completed", b'"completed"'),
        ("failed", b'"failed"'),
        ("cancelled", b'"failed"'),
        ("expired", b'"failed"'),
    ],
)
def test_the_state_is_a_bare_json_string(busy_world: World, phase: str | None, shown: bytes) -> None:
    batch_id = busy_world.create()
    if phase is not None:
        busy_world.set_status(batch_id, phase=phase)
    answer = busy_world.get(f"{BATCHES}/{batch_id}")
    assert (answer.status_code, answer.content) == (200, shown)
    assert answer.headers["content-type"] == "application/json"
    assert busy_world.get(f"{BATCHES}/{batch_id}/").content == shown


def test_the_list_has_what_clients_read_and_the_newest_first(world: World) -> None:
    first = world.create()
    world.clock.offset += 60
    second = world.create()
    world.set_status(first, **DONE)
    world.set_status(second, phase="in_progress")
    newest, oldest = world.get(BATCHES).json()
    assert set(newest) == {"batch_id", "cluster", "created_at", "framework", "input_file", "status"}
    assert (newest["batch_id"], newest["status"]) == (second, "running")
    assert (oldest["batch_id"], oldest["status"]) == (first, "completed")
    assert (newest["cluster"], newest["framework"], newest["input_file"]) == ("local", "vllm", INPUT)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\+00:00", newest["created_at"])
    assert world.get(f"{BATCHES}/").json() == [newest, oldest]


def test_the_list_can_be_of_one_state(world: World) -> None:
    phases = {"pending": "validating", "running": "cancelling", "completed": "completed", "failed": "expired"}
    made = {status: world.create() for status in phases}
    for status, phase in phases.items():
        world.set_status(made[status], phase=phase)
    for status, batch_id in made.items():
        assert [one["batch_id"] for one in world.get(BATCHES, params={"status": status}).json()] == [batch_id]


@pytest.mark.parametrize("status", ["in_progress", "cancelled", "", "RUNNING"])
def test_a_state_that_clients_of_this_form_do_not_know_is_refused(busy_world: World, status: str) -> None:
    assert error_of(busy_world.get(BATCHES, params={"status": status}))[:3] == (400, "invalid_value", "status")


def test_the_result_of_a_completed_batch(busy_world: World) -> None:
    batch_id = busy_world.create()
    busy_world.set_status(batch_id, **DONE)
    output = busy_world.batchjob(batch_id)["spec"]["output"]
    folder = f"/data/tenants/team-a/batch-results/{output['folder']}"
    result = busy_world.get(f"{BATCHES}/{batch_id}/result").json()
    assert result == {
        "results_file": f"{folder}/{output['names']['results']}",
        "progress_file": f"{folder}/{output['names']['progress']}",
        "errors_file": f"{folder}/{output['names']['errors']}",
        "metrics": {
            "response_time": 12.5,
            "throughput_tokens_per_second": 320.0,
            "total_tokens": 4000,
            "num_responses": 150,
            "lines_processed": 200,
        },
    }


@pytest.mark.parametrize(
    ("phase", "state"), [("validating", "pending"), ("in_progress", "running"), ("finalizing", "running")]
)
def test_a_result_that_is_asked_for_too_early_is_a_400_that_says_so(busy_world: World, phase: str, state: str) -> None:
    batch_id = busy_world.create()
    busy_world.set_status(batch_id, phase=phase)
    status, code, _, message = error_of(busy_world.get(f"{BATCHES}/{batch_id}/result"))
    assert (status, code) == (400, "batch_not_completed")
    assert message == f"The batch is not completed yet, it is {state}: its result is not ready."


@pytest.mark.parametrize(
    ("status", "begins"),
    [
        (
            {
                "phase": "failed",
                "validationErrors": [{"code": "mismatched_model", "line": 3, "message": "Wrong model."}],
                "validationErrorCount": 1,
            },
            "The batch failed: line 3: Wrong model.",
        ),
        ({"phase": "failed", "message": "The server is gone."}, "The batch failed: The server is gone."),
        ({"phase": "cancelled", "message": "Stopped."}, "The batch was cancelled: Stopped."),
        ({"phase": "expired", "message": "Too late."}, "The batch has expired: Too late."),
    ],
)
def test_the_result_of_a_failed_batch_is_its_message(busy_world: World, status: dict[str, Any], begins: str) -> None:
    batch_id = busy_world.create()
    busy_world.set_status(batch_id, **status)
    answer = busy_world.get(f"{BATCHES}/{batch_id}/result")
    assert answer.status_code == 200
    assert json.loads(answer.content).startswith(begins)


def test_a_batch_outlives_its_batchjob(world: World) -> None:
    batch_id = world.create()
    world.set_status(batch_id, **DONE)
    paths = (f"{BATCHES}/{batch_id}", f"{BATCHES}/{batch_id}/result", BATCHES)
    before = [world.get(path).content for path in paths]
    del world.api.objects[world.batchjob_path(batch_id)]
    assert [world.get(path).content for path in paths] == before


def test_a_cancel_reaches_the_batchjob_and_may_be_repeated(busy_world: World) -> None:
    batch_id = busy_world.create()
    busy_world.set_status(batch_id, phase="in_progress")
    for _ in range(2):
        answer = busy_world.send("POST", f"{BATCHES}/{batch_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "running")
        assert busy_world.batchjob(batch_id)["spec"]["cancel"] is True
    busy_world.set_status(batch_id, phase="cancelled", message="Stopped.")
    assert busy_world.send("POST", f"{BATCHES}/{batch_id}/cancel").json()["status"] == "failed"
    assert busy_world.get(f"{BATCHES}/{batch_id}/result").json().startswith("The batch was cancelled")


def test_what_has_ended_is_not_cancelled(busy_world: World) -> None:
    batch_id = busy_world.create()
    busy_world.set_status(batch_id, **DONE)
    answer = busy_world.send("POST", f"{BATCHES}/{batch_id}/cancel")
    assert error_of(answer)[0] == 409
    assert answer.headers["x-should-retry"] == "false"


ROUTES: list[tuple[str, Callable[[str], str]]] = [
    ("GET", lambda batch_id: f"{BATCHES}/{batch_id}"),
    ("GET", lambda batch_id: f"{BATCHES}/{batch_id}/result"),
    ("POST", lambda batch_id: f"{BATCHES}/{batch_id}/cancel"),
]


def test_another_tenants_batch_is_as_one_that_never_was(world: World) -> None:
    theirs = world.create()
    unknown = theirs[:-1] + ("0" if theirs[-1] != "0" else "1")
    for method, path in ROUTES:
        answers = [error_of(world.send(method, path(one), BOB)) for one in (theirs, unknown)]
        assert answers[0][:3] == answers[1][:3] == (404, None, "batch_id")
        assert answers[0][3].replace(theirs, "") == answers[1][3].replace(unknown, "")
    assert world.get(BATCHES, BOB).json() == []
    assert "cancel" not in world.batchjob(theirs)["spec"]


@pytest.mark.parametrize("identity", ["x", "..", "%2e%2e", "..%2fteam-b", "batch_", "file-" + "0" * 32, "%00"])
def test_an_id_that_is_none_is_no_batch(busy_world: World, identity: str) -> None:
    for method, path in ROUTES:
        assert error_of(busy_world.send(method, path(identity)))[0] in (400, 404, 405)


def test_an_administrator_sees_all_and_creates_in_a_namespace_that_is_named(world: World) -> None:
    alices, bobs = world.create(), world.create(BOB, input_file="/data/tenants/team-b/in.jsonl")
    assert {batch["batch_id"] for batch in world.get(BATCHES, ADMIN).json()} == {alices, bobs}
    assert world.get(f"{BATCHES}/{bobs}", ADMIN).json() == "pending"
    status, _, param, _ = error_of(world.send("POST", CREATE, ADMIN, json=ASKED))
    assert (status, param) == (400, "OpenAI-Project")
    answer = world.send("POST", CREATE, ADMIN, json=ASKED, headers={"openai-project": "team-a"})
    assert answer.json()["batch_id"] in {batch["batch_id"] for batch in world.get(BATCHES).json()}


def test_without_a_key_nothing_is_told(busy_world: World) -> None:
    batch_id = busy_world.create()
    for method, path in [("POST", CREATE), ("GET", BATCHES), *((method, path(batch_id)) for method, path in ROUTES)]:
        answer = busy_world.send(method, path, headers={"authorization": "Bearer nobody"})
        assert error_of(answer)[:2] == (401, "invalid_api_key")


def test_batches_of_the_other_face_are_not_among_these(world: World) -> None:
    upload = world.send(
        "POST", "/v1/files", files={"file": ("in.jsonl", b'{"custom_id":"a"}\n')}, data={"purpose": "batch"}
    ).json()
    other = world.send(
        "POST", "/v1/batches", json={"input_file_id": upload["id"], "endpoint": "/v1/chat/completions"}
    ).json()
    ours = world.create()
    assert [batch["batch_id"] for batch in world.get(BATCHES).json()] == [ours]
    for method, path in ROUTES:
        assert error_of(world.send(method, path(other["id"])))[0] == 404
