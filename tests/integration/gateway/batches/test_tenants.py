"""Nobody reaches another tenant's batches, by any route; an administrator reaches all."""

import httpx
import msgspec
import pytest

from fixtures.batch_world import BatchWorld
from fixtures.gateway import ADMIN, ALICE, BOB

ROUTES = [("GET", ""), ("POST", "/cancel")]


def told(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """Everything of an answer that could differ, but for what is the request's own."""
    own = ("x-request-id", "date")
    return answer.status_code, answer.text, {name: text for name, text in answer.headers.items() if name not in own}


@pytest.mark.parametrize(("method", "rest"), ROUTES)
def test_anothers_batch_is_exactly_what_isnt_there(shared: BatchWorld, method: str, rest: str) -> None:
    alices = shared.create()
    nobodys = "batch_" + "f" * 32
    of_another = shared.request(method, f"/v1/batches/{alices}{rest}", BOB)
    of_nobody = shared.request(method, f"/v1/batches/{nobodys}{rest}", BOB)

    status, text, headers = told(of_nobody)
    assert told(of_another) == (status, text.replace(nobodys, alices), headers)
    assert status == 404
    assert of_another.json()["error"] == {
        "message": f"No batch found with id '{alices}'.",
        "type": "invalid_request_error",
        "param": "batch_id",
        "code": None,
    }
    assert "cancel" not in shared.batchjob(alices)["spec"]


def test_anothers_file_is_no_input(shared: BatchWorld) -> None:
    alices = shared.upload(ALICE)
    batch_id = shared.create(alices, BOB)

    assert shared.get(batch_id, BOB)["errors"]["data"][0]["message"] == f"Cannot find file {alices}."
    assert shared.path_of(batch_id, BOB) not in shared.api.objects


@pytest.mark.parametrize(
    "path",
    [
        "..%2fteam-a%2f{}",
        "../team-a/{}",
        "{}%00",
        "{}.json",
        "%2e%2e/batches/{}",
        "{}/../{}",
    ],
)
def test_no_path_leads_to_anothers_batch(shared: BatchWorld, path: str) -> None:
    alices = shared.create()
    target = f"{shared.url}/v1/batches/{path.replace('{}', alices)}"
    # httpx would tidy the path up: it is sent as it stands here.
    url = httpx.URL(target).copy_with(raw_path=target.removeprefix(shared.url).encode())
    answer = shared.client.get(url, headers={"authorization": "Bearer bob"})

    assert answer.status_code in (404, 405)
    assert "input_file_id" not in answer.text


def test_a_tenant_cant_choose_anothers_namespace(shared: BatchWorld) -> None:
    alices = shared.create()
    headers = {"OpenAI-Project": "team-a"}

    assert shared.request("GET", f"/v1/batches/{alices}", BOB, headers=headers).status_code == 404


def test_each_tenants_batchjob_is_in_its_namespace_and_folder(shared: BatchWorld) -> None:
    job = shared.batchjob(shared.create(who=BOB), BOB)

    assert job["metadata"]["namespace"] == "team-b"
    assert job["spec"]["output"]["uri"].endswith("/batches/team-b/")
    assert "/batches/team-b/file-" in job["spec"]["input"]["uri"]


def test_an_administrator_finds_and_cancels_any_batch(shared: BatchWorld) -> None:
    batch_id = shared.create(who=BOB)

    assert shared.get(batch_id, ADMIN)["id"] == batch_id
    assert shared.request("POST", f"/v1/batches/{batch_id}/cancel", ADMIN).json()["status"] == "cancelling"
    elsewhere = {"OpenAI-Project": "team-a"}
    assert shared.request("GET", f"/v1/batches/{batch_id}", ADMIN, headers=elsewhere).status_code == 404


def test_a_batch_of_the_paths_is_none_of_these_routes(shared: BatchWorld) -> None:
    """It has no input file, which OpenAI's clients expect."""
    batch_id = shared.create()
    stored = shared.gateway.batches.get("team-a", batch_id)
    assert stored is not None
    by_path = msgspec.structs.replace(stored.record, face="paths", input_file_id=None)
    shared.gateway.batches.replace("team-a", batch_id, stored, by_path)

    assert shared.request("GET", f"/v1/batches/{batch_id}").status_code == 404
    assert batch_id not in shared.request("GET", "/v1/batches?limit=100").text


def test_a_stranger_gets_a_401(shared: BatchWorld) -> None:
    for method, path in (("POST", ""), ("GET", ""), ("GET", "/x"), ("POST", "/x/cancel")):
        answer = shared.client.request(method, f"/v1/batches{path}", headers={"authorization": "Bearer mallory"})
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
