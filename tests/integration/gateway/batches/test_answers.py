"""What scripts read of batches, with grep and without a JSON parser."""

import subprocess

import pytest

from fixtures.batch_world import BatchWorld

METADATA = {"id": "theirs", "status": "completed", "output_file_id": "file-theirs", 'my "id': "theirs", "team": "docs"}


def grep(field: str, answer: str) -> list[str]:
    """Lines of `grep -o '"field": *"[^"]*"'`."""
    command = ["grep", "-o", f'"{field}": *"[^"]*"']
    return subprocess.run(command, input=answer, capture_output=True, text=True, check=False).stdout.splitlines()


def answers(world: BatchWorld) -> dict[str, str]:
    """The batch as each route shows it, by the route's name."""
    file_id = world.upload()
    created = world.post(input_file_id=file_id, endpoint="/v1/chat/completions", metadata=METADATA)
    path = f"/v1/batches/{created.json()['id']}"
    return {
        "create": created.text,
        "retrieve": world.request("GET", path).text,
        "list": world.request("GET", "/v1/batches?limit=1").text,
        "cancel": world.request("POST", f"{path}/cancel").text,
    }


def test_each_route_shows_id_and_status_once_whatever_metadata_is_called(shared: BatchWorld) -> None:
    for route, text in answers(shared).items():
        [batch] = shared.request("GET", "/v1/batches?limit=1").json()["data"]
        status = "cancelling" if route == "cancel" else "validating"

        assert grep("id", text) == [f'"id": "{batch["id"]}"'], route
        assert grep("status", text) == [f'"status": "{status}"'], route
        assert grep("output_file_id", text) == [], route
        assert grep("team", text) == ['"team": "docs"'], route


def test_a_failed_batch_shows_them_once_beside_its_errors(shared: BatchWorld) -> None:
    made = shared.post(input_file_id=shared.missing_file(3), endpoint="/v1/chat/completions", metadata=METADATA).json()
    answer = shared.request("GET", f"/v1/batches/{made['id']}")

    assert answer.json()["errors"]["data"]
    assert grep("id", answer.text) == [f'"id": "{made["id"]}"']
    assert grep("status", answer.text) == ['"status": "failed"']
    assert len(grep("message", answer.text)) == 1


@pytest.mark.parametrize("key", METADATA)
def test_clients_with_a_parser_see_metadata_as_it_was_sent(shared: BatchWorld, key: str) -> None:
    batch = shared.openai().batches.retrieve(shared.create(metadata=METADATA))

    assert batch.metadata is not None
    assert batch.metadata[key] == METADATA[key]
